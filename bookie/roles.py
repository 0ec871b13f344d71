"""The role in a client's certificate, as BookKeeper writes it: OU=0:role,other;1:cluster.

Of several roles the first one counts, and of several OU the first one in the certificate, as in
Java's bookie. Source: CertUtils, BookieAuthZFactory.
"""

import re
from typing import Final

from cryptography import x509
from cryptography.x509.oid import NameOID

_CODED: Final = re.compile(r"([0-9]+):(.*)", re.DOTALL)
_ROLES: Final = "0"


def role_in(certificate: bytes) -> str | None:
    """Return the role; None: it has none. Shape: DER, which a handshake has verified.

    Errors: none: a name that cannot be read has no role.
    """
    try:
        names = x509.load_der_x509_certificate(certificate).subject.rdns
    except ValueError:
        return None
    for each in names:
        first = next(iter(each))
        if first.oid == NameOID.ORGANIZATIONAL_UNIT_NAME:
            return _role_of(str(first.value))
    return None


def _role_of(unit: str) -> str | None:
    found = None
    for part in unit.split(";"):
        coded = _CODED.match(part)
        if coded is not None and coded[1] == _ROLES:
            found = coded[2].split(",")[0].strip()
    return found or None
