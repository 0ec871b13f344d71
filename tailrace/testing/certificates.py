"""An authority for the time of a test, and the certificates that it issues; in files, as PEM.

`cryptography` makes them; it is loaded for a secured broker alone.
"""

import datetime
import ipaddress
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

VALID: Final = datetime.timedelta(days=7)
_EARLIER: Final = datetime.timedelta(hours=1)
"""How far a clock may lag behind."""
HOSTS: Final = ("localhost", "127.0.0.1", "::1")


class Authority:
    """Issues certificates into files of a folder."""

    def __init__(self, folder: Path) -> None:
        from cryptography.hazmat.primitives.asymmetric import ec

        self.folder = folder
        self.certificate = folder / "ca.pem"
        """What clients and the broker trust."""
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._own = self._signed("tailrace.testing", self._key, is_authority=True)
        self.certificate.write_bytes(_pem(self._own))

    def issue(self, name: str, hosts: tuple[str, ...] = ()) -> Path:
        """Return a new file with a private key and its certificate, for CN=`name`."""
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ec

        key = ec.generate_private_key(ec.SECP256R1())
        plain = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        file = self.folder / f"{len(os.listdir(self.folder))}.pem"
        file.touch(mode=0o600)
        file.write_bytes(plain + _pem(self._signed(name, key, hosts)))
        return file

    def _signed(
        self,
        name: str,
        key: "EllipticCurvePrivateKey",
        hosts: tuple[str, ...] = (),
        *,
        is_authority: bool = False,
    ) -> "x509.Certificate":
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes
        from cryptography.x509.oid import NameOID

        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        now = datetime.datetime.now(datetime.UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(subject if is_authority else self._own.subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - _EARLIER)
            .not_valid_after(now + VALID)
            .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()),
                critical=False,
            )
            .add_extension(
                x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False
            )
        )
        if hosts:
            names = x509.SubjectAlternativeName([_general_name(host) for host in hosts])
            builder = builder.add_extension(names, critical=False)
        return builder.sign(self._key, hashes.SHA256())


def _general_name(host: str) -> "x509.GeneralName":
    from cryptography import x509

    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _pem(certificate: "x509.Certificate") -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding

    return certificate.public_bytes(Encoding.PEM)
