"""Key stores and trust stores as they are given, PEM or PKCS12, in files or in settings -> PEM."""

from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
    pkcs12,
)

from tailrace.core.runtime.config import ConfigError
from tailrace.core.security.tls_config import TlsStores

STORE_BYTES_MAX = 16 * 1024 * 1024
"""A larger file is not read."""


class InvalidKeys(ConfigError):
    """A key store or a trust store that cannot be used; the message names it, never its secrets."""


class KeyPair(NamedTuple):
    """A private key and the certificates that go with it, the own one first. Shape: PEM."""

    key: bytes
    chain: bytes
    certificate: x509.Certificate


def read_key_pair(config: TlsStores) -> KeyPair:
    """Read the key store. Blocks. Errors: InvalidKeys, also for a file that cannot be read."""
    if config.keystore_location is None:
        key = config.keystore_key.reveal().encode()
        chain = config.keystore_certificate_chain.encode()
        return _of_pem(key, chain, config, "ssl.keystore.key")
    place = f"ssl.keystore.location={config.keystore_location}"
    data = _read(config.keystore_location, place)
    if config.keystore_type == "PEM":
        return _of_pem(data, data, config, place)
    store = _pkcs12(data, config.keystore_password.reveal(), place)
    if store.key is None or store.cert is None:
        raise InvalidKeys(f"{place}: it has no private key with a certificate")
    certificates = [store.cert.certificate, *(each.certificate for each in store.additional_certs)]
    chain = b"".join(each.public_bytes(Encoding.PEM) for each in certificates)
    return KeyPair(_plain(store.key), chain, store.cert.certificate)


def read_trusted(config: TlsStores) -> str | None:
    """Read the trust store as PEM; None: none is given. Blocks. Errors: InvalidKeys."""
    if not config.has_trust:
        return None
    if config.truststore_location is None:
        data, place = config.truststore_certificates.encode(), "ssl.truststore.certificates"
    else:
        place = f"ssl.truststore.location={config.truststore_location}"
        data = _read(config.truststore_location, place)
    if config.truststore_location is not None and config.truststore_type == "PKCS12":
        store = _pkcs12(data, config.truststore_password.reveal(), place)
        found = [each.certificate for each in store.additional_certs]
        if store.cert is not None:
            found.append(store.cert.certificate)
    else:
        found = _certificates(data, place)
    if not found:
        raise InvalidKeys(f"{place}: it has no certificate")
    return b"".join(each.public_bytes(Encoding.PEM) for each in found).decode()


def _of_pem(key: bytes, chain: bytes, config: TlsStores, place: str) -> KeyPair:
    password = config.key_password.reveal().encode() or None
    try:
        private = load_pem_private_key(key, password)
    except TypeError as error:  # a password is missing, or there is nothing that needs one
        why = "it needs ssl.key.password" if password is None else "it has no password"
        raise InvalidKeys(f"{place}: the private key: {why}") from error
    except (ValueError, UnsupportedAlgorithm) as error:
        why = "it cannot be read" if password is None else "it cannot be read with ssl.key.password"
        raise InvalidKeys(f"{place}: the private key: {why}") from error
    certificates = _certificates(chain, place)
    text = b"".join(each.public_bytes(Encoding.PEM) for each in certificates)
    return KeyPair(_plain(private), text, certificates[0])


def _certificates(pem: bytes, place: str) -> list[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(pem)
    except ValueError as error:
        raise InvalidKeys(f"{place}: it has no certificate that can be read: {error}") from error


def _pkcs12(data: bytes, password: str, place: str) -> pkcs12.PKCS12KeyAndCertificates:
    try:
        return pkcs12.load_pkcs12(data, password.encode() or None)
    except (ValueError, UnsupportedAlgorithm) as error:
        raise InvalidKeys(f"{place}: not PKCS12, or the password is another: {error}") from error


def _plain(key: PrivateKeyTypes) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _read(path: Path, place: str) -> bytes:
    try:
        with path.open("rb") as file:
            data = file.read(STORE_BYTES_MAX + 1)
    except OSError as error:
        raise InvalidKeys(f"{place}: {error.strerror}") from error
    if len(data) > STORE_BYTES_MAX:
        raise InvalidKeys(f"{place}: more than {STORE_BYTES_MAX} bytes")
    return data
