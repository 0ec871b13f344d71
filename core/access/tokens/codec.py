"""How a delegation token lies in the metadata store: without anything that lets in. Pure."""

from typing import Final

import msgspec

from tailrace.core.access.tokens.token import Token
from tailrace.core.errors import CorruptData
from tailrace.core.metadata.stored_entities import EntityCodec
from tailrace.core.runtime.stored_json import NOT_JSON, Int32, Natural

FORMAT_VERSION: Final = 1


class _StoredToken(msgspec.Struct, frozen=True, kw_only=True):
    version: Int32 = FORMAT_VERSION
    token_id: str
    owner: str
    requester: str
    renewers: tuple[str, ...]
    issued_ms: Natural
    expires_ms: Natural
    ends_ms: Natural


_DECODER = msgspec.json.Decoder(_StoredToken)


def encode_token(token: Token) -> bytes:
    """Return the bytes of a node."""
    return msgspec.json.encode(_StoredToken(**token._asdict()))


def decode_token(path: str, data: bytes) -> Token:
    """Read a node. Errors: CorruptData, also for a format of a later release."""
    try:
        stored = _DECODER.decode(data)
    except NOT_JSON as error:
        raise CorruptData(f"the token at {path} does not decode") from error
    if stored.version != FORMAT_VERSION:
        raise CorruptData(f"{path} has format {stored.version}, this release reads 1")
    return Token(*(getattr(stored, name) for name in Token._fields))


TOKEN_CODEC: Final = EntityCodec[Token](encode_token, decode_token)
