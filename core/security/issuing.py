"""An authority of one's own, and the certificates that it issues to servers.

Keys are of the curve P-256; everything is PEM. For one node and its clients: an operator with an
authority brings certificates of that.
"""

import datetime
import ipaddress
from collections.abc import Sequence
from typing import Final, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

AUTHORITY_DAYS: Final = 3650
SERVER_DAYS: Final = 397
"""Clients of browsers' rules take no longer ones."""
RENEW_DAYS: Final = 30
"""A certificate with fewer days left is replaced."""
NAMES_MAX: Final = 100
_EARLIER: Final = datetime.timedelta(hours=1)
"""Clocks of clients may be behind."""


class Issued(NamedTuple):
    """A private key and its certificate. Shape: PEM."""

    key: bytes
    certificate: bytes

    @property
    def store(self) -> bytes:
        """Both in one file, as `ssl.keystore.location` takes it."""
        return self.key + self.certificate


class CannotIssue(ValueError):
    """What is no name of a server, or no authority."""


def new_authority(name: str, now_ms: int) -> Issued:
    """Make an authority that signs servers' certificates."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = _named(name)
    usage = _usage(key_cert_sign=True, crl_sign=True)
    built = (
        _builder(subject, subject, key.public_key(), now_ms, AUTHORITY_DAYS)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .sign(key, hashes.SHA256())
    )
    return _issued(key, built)


def issue(authority: Issued, names: Sequence[str], now_ms: int) -> Issued:
    """Issue a certificate to a server with these host names and addresses.

    Errors: CannotIssue. Cost: 1 ms.
    """
    signer, ca = _signer(authority)
    key = ec.generate_private_key(ec.SECP256R1())
    usages = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])
    issuer_key = x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key())
    built = (
        _builder(_named("tailrace"), ca.subject, key.public_key(), now_ms, SERVER_DAYS)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(digital_signature=True), critical=True)
        .add_extension(usages, critical=False)
        .add_extension(x509.SubjectAlternativeName(_alternatives(names)), critical=False)
        .add_extension(issuer_key, critical=False)
        .sign(signer, hashes.SHA256())
    )
    return _issued(key, built)


def is_due(certificate: bytes, names: Sequence[str], now_ms: int) -> bool:
    """Return whether a server's certificate lacks a name, or time, so that it is to be replaced.

    Errors: ValueError: it cannot be read; CannotIssue for a name that none can have.
    """
    found = x509.load_pem_x509_certificate(certificate)
    left = found.not_valid_after_utc - _time(now_ms)
    if left < datetime.timedelta(days=RENEW_DAYS):
        return True
    given = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return any(each not in given for each in _alternatives(names))


def _alternatives(names: Sequence[str]) -> list[x509.GeneralName]:
    if len(names) > NAMES_MAX:
        raise CannotIssue(f"{len(names)} names, {NAMES_MAX} fit into a certificate")
    return [_alternative(each) for each in dict.fromkeys(names)]


def _alternative(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        pass
    try:
        return x509.DNSName(name)
    except ValueError:  # not ASCII
        raise CannotIssue(f"{name!r} is not a host name that a certificate can have") from None


def _signer(authority: Issued) -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate]:
    try:
        key = load_pem_private_key(authority.key, None)
        certificate = x509.load_pem_x509_certificate(authority.certificate)
    except ValueError as error:
        raise CannotIssue(f"the authority cannot be read: {error}") from error
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise CannotIssue("the authority's key is not of an elliptic curve")
    return key, certificate


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey,
    now_ms: int,
    days: int,
) -> x509.CertificateBuilder:
    now = _time(now_ms)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _EARLIER)
        .not_valid_after(now + datetime.timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _usage(
    *, digital_signature: bool = False, key_cert_sign: bool = False, crl_sign: bool = False
) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=digital_signature,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=key_cert_sign,
        crl_sign=crl_sign,
        encipher_only=False,
        decipher_only=False,
    )


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _issued(key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate) -> Issued:
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return Issued(private, certificate.public_bytes(Encoding.PEM))


def _time(ms: int) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(ms / 1000, datetime.UTC)
