"""How a user lies in the metadata store: Kafka's text of SCRAM credentials. Pure.

    {"scram":{"SCRAM-SHA-256":"salt=...,stored_key=...,server_key=...,iterations=4096"},"version":1}

Source: org.apache.kafka.common.security.scram.internals.ScramCredentialUtils (base64).
"""

import base64
from collections.abc import Mapping
from typing import Final, TypeAlias

import msgspec

from tailrace.core.access.users.credentials import ScramCredential, ScramMechanism
from tailrace.core.errors import CorruptData
from tailrace.core.metadata.stored_entities import EntityCodec
from tailrace.core.runtime.stored_json import NOT_JSON, Int32

FORMAT_VERSION: Final = 1

Credentials: TypeAlias = Mapping[ScramMechanism, ScramCredential]
"""Of one user, by mechanism."""

_BY_NAME: Final = {each.sasl_name: each for each in ScramMechanism}


class _StoredUser(msgspec.Struct, frozen=True, kw_only=True):
    version: Int32 = FORMAT_VERSION
    scram: dict[str, str]


_DECODER = msgspec.json.Decoder(_StoredUser)


def encode_user(credentials: Credentials) -> bytes:
    """Return the bytes of a node; equal credentials give equal bytes."""
    scram = {each.sasl_name: credential_text(found) for each, found in credentials.items()}
    return msgspec.json.encode(_StoredUser(scram=scram), order="sorted")


def decode_user(path: str, data: bytes) -> Credentials:
    """Read a node. Errors: CorruptData, also for a format of a later release."""
    try:
        stored = _DECODER.decode(data)
        if stored.version != FORMAT_VERSION:
            raise CorruptData(f"{path} has format {stored.version}, this release reads 1")
        return {_BY_NAME[name]: credential_of(text) for name, text in stored.scram.items()}
    except (*NOT_JSON, KeyError) as error:
        raise CorruptData(f"the user at {path} does not decode") from error


def credential_text(credential: ScramCredential) -> str:
    """Return a credential as Kafka writes it."""
    salt, stored, server = (base64.b64encode(each).decode() for each in credential[:3])
    iterations = credential.iterations
    return f"salt={salt},stored_key={stored},server_key={server},iterations={iterations}"


def credential_of(text: str) -> ScramCredential:
    """Read a credential as Kafka writes it. Errors: ValueError, KeyError."""
    parts = dict(part.split("=", 1) for part in text.split(","))
    salt, stored, server = (
        base64.b64decode(parts[name], validate=True)
        for name in ("salt", "stored_key", "server_key")
    )
    return ScramCredential(salt, stored, server, int(parts["iterations"]))


USER_CODEC: Final = EntityCodec[Credentials](encode_user, decode_user)
