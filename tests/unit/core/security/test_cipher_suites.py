"""Names of cipher suites: Java's and OpenSSL's mean the same, and 1.3's come together."""

import ssl

import pytest

from tailrace.core.security.cipher_suites import OF_TLS_1_3, cipher_suites
from tailrace.core.security.tls_config import TlsConfig

JAVA_AND_OPENSSL = (
    ("TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", "ECDHE-ECDSA-AES128-GCM-SHA256"),
    ("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", "ECDHE-RSA-AES256-GCM-SHA384"),
    ("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-RSA-CHACHA20-POLY1305"),
    ("TLS_DHE_RSA_WITH_AES_128_GCM_SHA256", "DHE-RSA-AES128-GCM-SHA256"),
    ("TLS_RSA_WITH_AES_128_GCM_SHA256", "AES128-GCM-SHA256"),
    ("TLS_RSA_WITH_AES_256_CBC_SHA256", "AES256-SHA256"),
    ("TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA", "ECDHE-RSA-AES128-SHA"),
)


@pytest.mark.parametrize(("java", "openssl"), JAVA_AND_OPENSSL)
def test_a_suite_has_two_names(java: str, openssl: str) -> None:
    assert cipher_suites([java]) == cipher_suites([openssl]) == (openssl, False)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_ciphers(openssl + "@SECLEVEL=0")
    assert openssl in {each["name"] for each in context.get_ciphers()}


def test_suites_keep_their_order() -> None:
    names = [java for java, _ in JAVA_AND_OPENSSL]
    assert cipher_suites(names).openssl == ":".join(openssl for _, openssl in JAVA_AND_OPENSSL)
    assert cipher_suites([*sorted(OF_TLS_1_3), names[0]]) == (JAVA_AND_OPENSSL[0][1], True)


@pytest.mark.parametrize(
    ("names", "why"),
    [
        (["TLS_RSA_WITH_RC4_128_MD5"], "TLS_RSA_WITH_RC4_128_MD5 is not a suite"),
        (["ALL:!aNULL"], "ALL:!aNULL is not a suite"),
        (["TLS_AES_128_GCM_SHA256"], "add TLS_AES_256_GCM_SHA384, TLS_CHACHA20"),
    ],
)
def test_what_is_refused(names: list[str], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        cipher_suites(names)


def test_suites_of_no_version_that_is_spoken_are_refused() -> None:
    with pytest.raises(ValueError, match="no suite is of a version"):
        TlsConfig(cipher_suites=(JAVA_AND_OPENSSL[0][0],), enabled_protocols=("TLSv1.3",))
