"""Names of certificates, as Java 17's X500Principal.getName() wrote them."""

import datetime

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from tailrace.core.security.distinguished_name import subject_of

Attributes = list[tuple[x509.ObjectIdentifier, str]]

CN = NameOID.COMMON_NAME


def certificate_of(name: x509.Name) -> bytes:
    key = ec.generate_private_key(ec.SECP256R1())
    day = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).serial_number(1)
    builder = builder.not_valid_before(day).not_valid_after(day).public_key(key.public_key())
    return builder.sign(key, hashes.SHA256()).public_bytes(Encoding.DER)


@pytest.mark.parametrize(
    ("attributes", "by_java"),
    [
        (
            [
                (NameOID.COUNTRY_NAME, "DE"),
                (NameOID.STATE_OR_PROVINCE_NAME, "B"),
                (NameOID.LOCALITY_NAME, "X"),
                (NameOID.ORGANIZATION_NAME, "Acme, Inc."),
                (NameOID.ORGANIZATIONAL_UNIT_NAME, "a+b"),
                (CN, "alice"),
            ],
            r"CN=alice,OU=a\+b,O=Acme\, Inc.,L=X,ST=B,C=DE",
        ),
        ([(CN, ' lead #x=<>;"\\ ')], r"CN=\ lead \#x\=\<\>\;\"\\\ "),
        ([(CN, "#hash")], r"CN=\#hash"),
        ([(CN, "ümlaut 日本 😀")], "CN=ümlaut 日本 😀"),
        (
            [(NameOID.EMAIL_ADDRESS, "a@b.c"), (CN, "x")],
            "CN=x,1.2.840.113549.1.9.1=#16056140622e63",
        ),
        (
            [
                (NameOID.DOMAIN_COMPONENT, "org"),
                (NameOID.USER_ID, "u1"),
                (NameOID.SERIAL_NUMBER, "123"),
                (CN, "x"),
            ],
            "CN=x,2.5.4.5=#1303313233,UID=u1,DC=org",
        ),
        (
            [
                (NameOID.STREET_ADDRESS, "s 1"),
                (NameOID.TITLE, "t"),
                (NameOID.GIVEN_NAME, "g"),
                (CN, "a  b"),
            ],
            "CN=a  b,2.5.4.42=#0c0167,2.5.4.12=#0c0174,STREET=s 1",
        ),
        ([(CN, "nul\0x")], r"CN=nul\00x"),
        ([(CN, "line\nx"), (CN, "tab\tx")], "CN=tab\tx,CN=line\nx"),
        ([(CN, "\rx\r")], "CN=\\\rx\\\r"),
        ([(CN, " ")], "CN=\\ "),
        ([(CN, "  ")], "CN=\\ \\ "),
        ([(CN, "a\u0301")], "CN=a\u0301"),
    ],
)
def test_a_name_is_written_as_java_does(attributes: Attributes, by_java: str) -> None:
    name = x509.Name([x509.NameAttribute(kind, text) for kind, text in attributes])
    assert subject_of(certificate_of(name)) == by_java


def test_attributes_of_one_part_keep_the_order_of_the_certificate() -> None:
    kinds = [(CN, "a"), (NameOID.USER_ID, "b"), (NameOID.ORGANIZATION_NAME, "z")]
    part = x509.RelativeDistinguishedName([x509.NameAttribute(*each) for each in kinds])
    assert subject_of(certificate_of(x509.Name([part]))) == "CN=a+O=z+UID=b"


def test_what_is_not_a_certificate_is_refused() -> None:
    with pytest.raises(ValueError, match="parsing"):
        subject_of(b"no certificate")
