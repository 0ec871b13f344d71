"""Roles in certificates, by the rules of Java's CertUtils."""

import datetime

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from tailrace.bookie.roles import role_in

KEY = ec.generate_private_key(ec.SECP256R1())
CN, OU = NameOID.COMMON_NAME, NameOID.ORGANIZATIONAL_UNIT_NAME


def certificate(*names: tuple[x509.ObjectIdentifier, str]) -> bytes:
    subject = x509.Name([x509.NameAttribute(kind, value) for kind, value in names])
    day = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    builder = x509.CertificateBuilder(subject, subject, KEY.public_key(), 1, day, day)
    return builder.sign(KEY, hashes.SHA256()).public_bytes(Encoding.DER)


@pytest.mark.parametrize(
    ("units", "role"),
    [
        (["0:broker"], "broker"),
        (["0:broker;1:cluster"], "broker"),
        (["1:cluster;0: broker , other"], "broker"),
        (["0:a;0:b"], "b"),
        (["0:a", "0:b"], "a"),
        (["broker"], None),
        (["0:"], None),
        (["00:broker"], None),
        (["x0:broker"], None),
        ([], None),
    ],
)
def test_roles(units: list[str], role: str | None) -> None:
    names = [(CN, "client"), *((OU, unit) for unit in units)]
    assert role_in(certificate(*names)) == role


def test_what_cannot_be_read_has_no_role() -> None:
    assert role_in(b"no certificate") is None
