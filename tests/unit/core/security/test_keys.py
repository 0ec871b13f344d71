"""Key stores and trust stores: every form gives the same key, what cannot be used says why."""

from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from tailrace.core.runtime.config import Secret
from tailrace.core.security.keys import InvalidKeys, read_key_pair, read_trusted
from tailrace.core.security.tls_config import TlsConfig
from tailrace.core.security.tls_server import TlsServer
from tests.certificates import Authority


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("keys"))


def certificates(pem: bytes) -> list[x509.Certificate]:
    return x509.load_pem_x509_certificates(pem)


def encrypted(key: bytes, password: str) -> bytes:
    private = load_pem_private_key(key, None)
    encryption = BestAvailableEncryption(password.encode())
    return private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption)


def test_every_form_gives_the_same_key_and_chain(authority: Authority, tmp_path: Path) -> None:
    pem = authority.store("form").read_bytes()
    first = read_key_pair(TlsConfig(keystore_location=authority.directory / "form.pem"))
    chain = b"".join(each.public_bytes(Encoding.PEM) for each in certificates(pem))
    file = tmp_path / "encrypted.pem"
    file.write_bytes(chain + encrypted(pem, "sesame"))
    by_file = TlsConfig(keystore_location=file, key_password=Secret("sesame"))
    by_text = TlsConfig(
        keystore_key=Secret(encrypted(pem, "sesame").decode()),
        keystore_certificate_chain=chain.decode(),
        key_password=Secret("sesame"),
    )
    assert first == read_key_pair(by_file) == read_key_pair(by_text)
    assert certificates(first.chain) == certificates(pem)


def test_pkcs12_has_the_key_with_its_certificates(authority: Authority) -> None:
    store = authority.pkcs12("twelve", "sesame")
    pem = (authority.directory / "twelve.pem").read_bytes()
    given: dict[str, Any] = {"keystore_type": "PKCS12", "keystore_location": store}
    pair = read_key_pair(TlsConfig(keystore_password=Secret("sesame"), **given))
    assert pair == read_key_pair(TlsConfig(keystore_location=authority.directory / "twelve.pem"))
    assert certificates(pair.chain) == certificates(pem)
    with pytest.raises(InvalidKeys, match=r"twelve\.p12: not PKCS12, or the password") as refused:
        read_key_pair(TlsConfig(keystore_password=Secret("simsalabim"), **given))
    assert "simsalabim" not in str(refused.value)


def test_trusted_certificates_come_from_a_file_or_a_text(authority: Authority) -> None:
    pem = authority.certificate.read_text()
    by_file = read_trusted(TlsConfig(truststore_location=authority.certificate))
    by_text = read_trusted(TlsConfig(truststore_certificates=pem))
    assert by_file == by_text
    assert by_file is not None
    assert certificates(by_file.encode()) == certificates(pem.encode())
    assert read_trusted(TlsConfig()) is None


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "the private key: it cannot be read"),
        (b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", "it cannot be read"),
    ],
)
def test_what_is_no_key_store_is_named(tmp_path: Path, data: bytes, words: str) -> None:
    file = tmp_path / "store.pem"
    file.write_bytes(data)
    with pytest.raises(InvalidKeys, match=f"ssl.keystore.location={file}: .*{words}"):
        read_key_pair(TlsConfig(keystore_location=file))


def test_a_key_of_another_certificate_is_refused(authority: Authority, tmp_path: Path) -> None:
    one, other = authority.store("one").read_bytes(), authority.store("other").read_bytes()
    key, _, _ = one.partition(b"-----BEGIN CERTIFICATE")
    _, mark, chain = other.partition(b"-----BEGIN CERTIFICATE")
    file = tmp_path / "mixed.pem"
    file.write_bytes(key + mark + chain)
    with pytest.raises(InvalidKeys, match="KEY_VALUES_MISMATCH"):
        TlsServer(TlsConfig(keystore_location=file))


def test_passwords_that_are_missing_or_too_many_are_named(
    authority: Authority, tmp_path: Path
) -> None:
    pem = authority.store("locked").read_bytes()
    file = tmp_path / "locked.pem"
    file.write_bytes(pem[pem.index(b"-----BEGIN CERTIFICATE") :] + encrypted(pem, "sesame"))
    for password, words in (("", "it needs ssl.key.password"), ("open", "cannot be read with")):
        with pytest.raises(InvalidKeys, match=words):
            read_key_pair(TlsConfig(keystore_location=file, key_password=Secret(password)))
    plain = TlsConfig(
        keystore_location=authority.directory / "locked.pem", key_password=Secret("sesame")
    )
    with pytest.raises(InvalidKeys, match="it has no password"):
        read_key_pair(plain)
    with pytest.raises(InvalidKeys, match="No such file"):
        read_key_pair(TlsConfig(keystore_location=tmp_path / "none"))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"keystore_key": Secret("k")}, "belong together"),
        ({"client_auth": "required"}, "set ssl.truststore.location"),
        ({"enabled_protocols": ()}, "at least one"),
        (
            {"truststore_location": Path("t"), "truststore_certificates": "c"},
            "the file and the text are both set",
        ),
    ],
)
def test_settings_that_contradict_each_other_are_refused(
    settings: dict[str, Any], words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        TlsConfig(**settings)
