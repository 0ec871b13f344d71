"""How access control lists lie in the metadata store: one node a pattern, Kafka's JSON. Pure.

    TOPIC:PREFIXED:orders-   (the node's name, quoted)
    {"acls":[{"host":"*","operation":"Read","permissionType":"Allow","principal":"User:a"}],"version":1}

Source of the JSON: kafka.security.authorizer.AclEntry (Kafka 3.9).
"""

from typing import Final, NamedTuple

import msgspec

from tailrace.core.access.acls.model import (
    ANY_PRINCIPAL,
    WILDCARD,
    Entry,
    Operation,
    Pattern,
    PatternType,
    Permission,
    ResourceType,
)
from tailrace.core.errors import CorruptData
from tailrace.core.runtime.stored_json import NOT_JSON, Int32

FORMAT_VERSION: Final = 1

_CONCRETE_TYPES: Final = frozenset(ResourceType) - {ResourceType.UNKNOWN, ResourceType.ANY}
_PATTERN_TYPES: Final = (PatternType.LITERAL, PatternType.PREFIXED)
_PERMISSIONS: Final = {Permission.ALLOW: "Allow", Permission.DENY: "Deny"}
_OPERATIONS: Final = {
    each: "".join(word.capitalize() for word in each.name.split("_"))
    for each in frozenset(Operation) - {Operation.UNKNOWN, Operation.ANY}
}
"""As Kafka writes them: DescribeConfigs."""
_OPERATION_OF: Final = {name: each for each, name in _OPERATIONS.items()}
_PERMISSION_OF: Final = {name: each for each, name in _PERMISSIONS.items()}


class PatternEntries(NamedTuple):
    """The entries of one pattern: at least one, each once."""

    entries: tuple[Entry, ...]
    is_readable: bool = True


CLOSED: Final = PatternEntries(
    (Entry(ANY_PRINCIPAL, WILDCARD, Operation.ALL, Permission.DENY),), is_readable=False
)
"""Stands for a node that does not decode: what it says may be a DENY, so nothing is allowed."""


class _StoredEntry(msgspec.Struct, frozen=True, kw_only=True):
    principal: str
    permission_type: str = msgspec.field(name="permissionType")
    operation: str
    host: str


class _StoredEntries(msgspec.Struct, frozen=True, kw_only=True):
    version: Int32 = FORMAT_VERSION
    acls: list[_StoredEntry]


_DECODER: Final = msgspec.json.Decoder(_StoredEntries)


def entity_of(pattern: Pattern) -> str:
    """Return the name of a pattern's entity."""
    return f"{pattern.resource_type.name}:{pattern.pattern_type.name}:{pattern.name}"


def pattern_of(entity: str) -> Pattern | None:
    """Return the pattern of an entity, None for one that this release cannot know of."""
    kind, _, rest = entity.partition(":")
    pattern_type, _, name = rest.partition(":")
    try:
        pattern = Pattern(ResourceType[kind], name, PatternType[pattern_type])
    except KeyError:
        return None
    is_known = pattern.resource_type in _CONCRETE_TYPES and pattern.pattern_type in _PATTERN_TYPES
    return pattern if is_known and name else None


def encode_entries(value: PatternEntries) -> bytes:
    """Return the bytes of a node; equal entries in one order give equal bytes."""
    acls = [
        _StoredEntry(
            principal=each.principal,
            host=each.host,
            operation=_OPERATIONS[each.operation],
            permission_type=_PERMISSIONS[each.permission],
        )
        for each in value.entries
    ]
    return msgspec.json.encode(_StoredEntries(acls=acls), order="sorted")


def decode_entries(path: str, data: bytes) -> PatternEntries:
    """Read a node. Errors: CorruptData, also for a format of a later release."""
    try:
        stored = _DECODER.decode(data)
        entries = tuple(
            Entry(
                each.principal,
                each.host,
                _OPERATION_OF[each.operation],
                _PERMISSION_OF[each.permission_type],
            )
            for each in stored.acls
        )
    except (*NOT_JSON, KeyError) as error:
        raise CorruptData(f"the access control list at {path} does not decode") from error
    if stored.version != FORMAT_VERSION:
        raise CorruptData(f"{path} has format {stored.version}, this release reads 1")
    if not entries:
        raise CorruptData(f"the access control list at {path} has no entries")
    return PatternEntries(tuple(dict.fromkeys(entries)))
