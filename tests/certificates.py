"""Certificates for tests: an authority, and the files that it issues."""

from pathlib import Path

import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    load_pem_private_key,
    pkcs12,
)


class Authority:
    """Issues certificates into files of a directory."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(exist_ok=True)
        self.directory = directory
        self._authority = trustme.CA()
        self.certificate = directory / "ca.pem"
        self._authority.cert_pem.write_to_path(self.certificate)

    def store(self, name: str, *hosts: str, unit: str | None = None) -> Path:
        """Return a new key store in PEM: a private key, then the certificate chain."""
        issued = self._authority.issue_cert(
            *hosts or ("client",), common_name=name, organization_unit_name=unit
        )
        path = self.directory / f"{name}.pem"
        issued.private_key_and_cert_chain_pem.write_to_path(path)
        return path

    def pkcs12(self, name: str, password: str, *hosts: str, unit: str | None = None) -> Path:
        """Return a new key store in PKCS12."""
        pem = self.store(name, *hosts, unit=unit).read_bytes()
        first, *others = x509.load_pem_x509_certificates(pem)
        key = load_pem_private_key(pem, None)
        encryption = BestAvailableEncryption(password.encode())
        path = self.directory / f"{name}.p12"
        # the kinds of keys that trustme makes are among those of PKCS12
        data = pkcs12.serialize_key_and_certificates(b"own", key, first, others, encryption)  # type: ignore[arg-type]
        path.write_bytes(data)
        return path


def fingerprint(der: bytes) -> str:
    """Return what tells a certificate from others."""
    return x509.load_der_x509_certificate(der).fingerprint(hashes.SHA256()).hex()


def fingerprint_of(store: Path) -> str:
    """Return what tells the first certificate of a store from others."""
    first = x509.load_pem_x509_certificates(store.read_bytes())[0]
    return fingerprint(first.public_bytes(Encoding.DER))
