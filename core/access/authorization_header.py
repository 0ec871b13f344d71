"""The `Authorization` header of HTTP, and of gRPC's calls: basic and bearer. Pure.

Source: RFC 9110 section 11, RFC 7617 (basic), RFC 6750 (bearer).
"""

import base64
import binascii
from typing import Final, NamedTuple

from typing_extensions import override

HEADER_CHARS_MAX: Final = 16 * 1024
"""A longer one is refused: a token of some kilobytes is the longest thing that it holds."""


class Basic(NamedTuple):
    """A user and what it says is its password."""

    user: str
    password: str

    @override
    def __repr__(self) -> str:
        """Return nothing of the password."""
        return f"Basic(user={self.user!r})"


class BearerToken(NamedTuple):
    """A bearer token, not checked yet."""

    token: str

    @override
    def __repr__(self) -> str:
        """Return nothing of the token."""
        return "BearerToken()"


class BadAuthorization(ValueError):
    """A header that is neither. The text has nothing of it: it may be a password."""


def authorization_of(header: str) -> Basic | BearerToken:
    """Read a header's value. Errors: BadAuthorization."""
    if len(header) > HEADER_CHARS_MAX:
        raise BadAuthorization(f"more than {HEADER_CHARS_MAX} characters")
    scheme, _, rest = header.strip().partition(" ")
    rest = rest.strip()
    if scheme.lower() == "bearer" and rest and " " not in rest:
        return BearerToken(rest)
    if scheme.lower() == "basic":
        return _basic(rest)
    raise BadAuthorization("not Basic or Bearer")


def basic_header(user: str, password: str) -> str:
    """Return the header's value for a user. Errors: BadAuthorization: a colon is in its name."""
    if ":" in user:
        raise BadAuthorization("a user with a colon in its name cannot come by HTTP basic")
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def _basic(encoded: str) -> Basic:
    try:
        text = base64.b64decode(encoded, validate=True).decode()
    except (binascii.Error, ValueError):  # not base64, not ASCII, not UTF-8
        raise BadAuthorization("Basic: not USER:PASSWORD in UTF-8 and base64") from None
    user, colon, password = text.partition(":")
    if not (user and colon):
        raise BadAuthorization("Basic: not USER:PASSWORD in UTF-8 and base64")
    return Basic(user, password)
