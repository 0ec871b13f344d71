"""Cipher suites by the names that Java and the RFCs give them -> those of OpenSSL. Pure.

Of TLS 1.3 Python's `ssl` offers all three suites or none: to leave one out is refused, and a list
without any of them leaves that version out, as it does in Java.
Source: RFC 8446 B.4, RFC 5289, RFC 7905; OpenSSL's ciphers(1).
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

SETTING: Final = "ssl.cipher.suites"

OF_TLS_1_3: Final = frozenset(
    {"TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"}
)
_EXCHANGES: Final = {
    "ECDHE_ECDSA": "ECDHE-ECDSA-",
    "ECDHE_RSA": "ECDHE-RSA-",
    "DHE_RSA": "DHE-RSA-",
    "RSA": "",
}
_CIPHERS: Final = {
    "AES_128_GCM_SHA256": "AES128-GCM-SHA256",
    "AES_256_GCM_SHA384": "AES256-GCM-SHA384",
    "CHACHA20_POLY1305_SHA256": "CHACHA20-POLY1305",
    "AES_128_CBC_SHA256": "AES128-SHA256",
    "AES_256_CBC_SHA384": "AES256-SHA384",
    "AES_256_CBC_SHA256": "AES256-SHA256",
    "AES_128_CBC_SHA": "AES128-SHA",
    "AES_256_CBC_SHA": "AES256-SHA",
}


class CipherSuites(NamedTuple):
    """What may be agreed on; an empty list of names asks for neither."""

    openssl: str
    """For TLS 1.2, as `SSLContext.set_ciphers` takes it; empty: none of them."""
    with_1_3: bool


def cipher_suites(names: Iterable[str]) -> CipherSuites:
    """Read a list of suites. Errors: ValueError for a name that is not known, or a part of 1.3's.

    Whether this machine's OpenSSL has a suite is seen when a context is made of it.
    """
    given = list(names)
    of_1_3 = OF_TLS_1_3.intersection(given)
    if of_1_3 and of_1_3 != OF_TLS_1_3:
        missing = ", ".join(sorted(OF_TLS_1_3 - of_1_3))
        raise ValueError(
            f"{SETTING}: of TLS 1.3 all suites are spoken or none: add {missing}, or leave TLSv1.3 "
            "out of ssl.enabled.protocols"
        )
    others = [_openssl_name(name) for name in given if name not in OF_TLS_1_3]
    return CipherSuites(":".join(others), bool(of_1_3))


def _openssl_name(name: str) -> str:
    exchange, _, cipher = name.removeprefix("TLS_").partition("_WITH_")
    if name.startswith("TLS_") and exchange in _EXCHANGES and cipher in _CIPHERS:
        return _EXCHANGES[exchange] + _CIPHERS[cipher]
    if name in _OPENSSL_NAMES:
        return name
    raise ValueError(f"{SETTING}: {name} is not a suite that is known here")


_OPENSSL_NAMES: Final = frozenset(
    exchange + cipher for exchange in _EXCHANGES.values() for cipher in _CIPHERS.values()
)
