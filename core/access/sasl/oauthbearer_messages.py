"""OAUTHBEARER's messages. Pure.

    client  n,[a=authzid],^Aauth=Bearer TOKEN^A[key=value^A]...^A
    server  (nothing), or {"status":"invalid_token"}, to which the client answers ^A

Source: RFC 7628 section 3; org.apache.kafka.common.security.oauthbearer.internals,
OAuthBearerClientInitialResponse and OAuthBearerSaslServer.
"""

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from tailrace.core.access.oauth.compact import TOKEN_BYTES_MAX

MESSAGE_BYTES_MAX: Final = TOKEN_BYTES_MAX + 16 * 1024
"""Of a client's message: the token, and a name and extensions, which are short."""
EXTENSIONS_MAX: Final = 100
ABORT: Final = b"\x01"
"""What a client sends when it was refused."""
INVALID_TOKEN: Final = b'{"status":"invalid_token"}'
"""What a server says of a token that it refuses, whatever the reason (RFC 6750 section 3.1)."""

_HEADER = re.compile(r"n,(?:a=((?:[\x02-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+))?,")
_KEY = re.compile(r"[A-Za-z]+")
_VALUE = re.compile(r"[\x21-\x7e \t\r\n]+")
_AUTH = re.compile(r"([A-Za-z0-9_]+) +([A-Za-z0-9_~+/.\-]+=*)")


class BadMessage(Exception):
    """A client sent what is not the mechanism's. The text has nothing of the message."""


class InitialResponse(NamedTuple):
    """What a client begins with."""

    token: str
    authorization_id: str = ""
    """As whom it wants to act; empty: as whom the token says."""
    extensions: Mapping[str, str] = {}


def parse_initial_response(message: bytes) -> InitialResponse:
    """Read a client's first message. Errors: BadMessage. Cost: 0.1 ms for the largest."""
    if len(message) > MESSAGE_BYTES_MAX:
        raise BadMessage(f"more than {MESSAGE_BYTES_MAX} bytes")
    try:
        header, *pairs = message.decode("ascii").split("\x01", EXTENSIONS_MAX + 3)
    except UnicodeDecodeError:
        raise BadMessage("not ASCII") from None
    found = _HEADER.fullmatch(header)
    if found is None:
        raise BadMessage("no GS2 header without channel binding")
    if pairs[-2:] != ["", ""]:
        raise BadMessage("it does not end as it must, or has too many extensions")
    extensions = _extensions(pairs[:-2])
    auth = _AUTH.fullmatch(extensions.pop("auth", ""))
    if auth is None or auth[1].lower() != "bearer":
        raise BadMessage("no bearer token")
    return InitialResponse(auth[2], _unescaped(found[1] or ""), extensions)


def _extensions(pairs: list[str]) -> dict[str, str]:
    extensions: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not (equals and _KEY.fullmatch(key) and _VALUE.fullmatch(value)):
            raise BadMessage("an extension is not key=value")
        if key in extensions:
            raise BadMessage("an extension is there twice")
        extensions[key] = value
    return extensions


def _unescaped(name: str) -> str:
    return name.replace("=2C", ",").replace("=3D", "=")
