"""Records of `__consumer_offsets` in Kafka's own schemas, so that Kafka's tools can read them.

A key is int16 record type + fields; a value is int16 schema version + fields; no value is a
tombstone. Source: Kafka group-coordinator, common/message/*.json; reference/kafka.md 6.6.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from struct import Struct
from typing import Final, TypeAlias, TypeVar

from tailrace.protocol.errors import BufferUnderflow, UnsupportedVersion
from tailrace.protocol.ids import Buffer
from tailrace.protocol.kafka.primitives import BYTES, INT32, INT64, STRING, UUID
from tailrace.protocol.kafka.wire import array, decode, encode, join, wire


@dataclass(slots=True, kw_only=True)
class OffsetCommitKey:
    """Source: Kafka OffsetCommitKey.json (type 1), v0."""

    group: str = wire(STRING)
    topic: str = wire(STRING)
    partition: int = wire(INT32)


@dataclass(slots=True, kw_only=True)
class OffsetCommitValue:
    """Source: Kafka OffsetCommitValue.json (type 1), v0-4."""

    offset: int = wire(INT64)
    leader_epoch: int = wire(INT32, since=3, default=-1)
    metadata: str = wire(STRING)
    commit_timestamp: int = wire(INT64)
    expire_timestamp: int = wire(INT64, since=1, until=1, default=-1)
    topic_id: bytes = wire(UUID, since=4, tag=0)


@dataclass(slots=True, kw_only=True)
class GroupMetadataKey:
    """Source: Kafka GroupMetadataKey.json (type 2), v0."""

    group: str = wire(STRING)


@dataclass(slots=True, kw_only=True)
class MemberMetadata:
    """Part of GroupMetadataValue."""

    member_id: str = wire(STRING)
    group_instance_id: str | None = wire(STRING, since=3, nullable_since=3, default=None)
    client_id: str = wire(STRING)
    client_host: str = wire(STRING)
    rebalance_timeout: int = wire(INT32, since=1, default=-1)
    session_timeout: int = wire(INT32)
    subscription: bytes = wire(BYTES)
    assignment: bytes = wire(BYTES)


@dataclass(slots=True, kw_only=True)
class GroupMetadataValue:
    """Source: Kafka GroupMetadataValue.json (type 2), v0-4."""

    protocol_type: str = wire(STRING)
    generation: int = wire(INT32)
    protocol: str | None = wire(STRING, nullable_since=0)
    leader: str | None = wire(STRING, nullable_since=0)
    current_state_timestamp: int = wire(INT64, since=2, default=-1)
    members: Sequence[MemberMetadata] = wire(array(MemberMetadata))


V = TypeVar("V", OffsetCommitValue, GroupMetadataValue)
Key: TypeAlias = OffsetCommitKey | GroupMetadataKey

OFFSET_COMMIT_TYPE: Final = 1
GROUP_METADATA_TYPE: Final = 2
VALUE_VERSION: Final = 3
"""What every Kafka since 2.3 reads; version 4 (flexible, topic id as a tag) is read here too."""

_PREFIX: Final = Struct(">h")
_KEY_TYPES: Final[dict[int, type[Key]]] = {
    0: OffsetCommitKey,  # Kafka's LegacyOffsetCommitKey: the same fields
    OFFSET_COMMIT_TYPE: OffsetCommitKey,
    GROUP_METADATA_TYPE: GroupMetadataKey,
}
_VALUE_VERSIONS: Final = range(5)
_VALUE_FLEXIBLE_SINCE: Final = 4


def encode_key(key: Key) -> bytes:
    """Return a record key: its type, then its fields."""
    kind = OFFSET_COMMIT_TYPE if isinstance(key, OffsetCommitKey) else GROUP_METADATA_TYPE
    return join([_PREFIX.pack(kind), *encode(key, 0, flexible=False)])


def decode_key(data: Buffer) -> Key:
    """Read a record key. Errors: UnsupportedVersion for other record types: skip them."""
    kind, rest = _split(data)
    if kind not in _KEY_TYPES:
        raise UnsupportedVersion(f"coordinator record type {kind}")
    return decode(_KEY_TYPES[kind], 0, rest, flexible=False)


def encode_value(
    value: OffsetCommitValue | GroupMetadataValue, version: int | None = None
) -> bytes:
    """Return a record value: its schema version, then its fields."""
    if version is None:
        expires = isinstance(value, OffsetCommitValue) and value.expire_timestamp != -1
        version = 1 if expires else VALUE_VERSION  # only version 1 has the time of expiry
    body = encode(value, version, flexible=version >= _VALUE_FLEXIBLE_SINCE)
    return join([_PREFIX.pack(version), *body])


def decode_offset_commit_value(data: Buffer) -> OffsetCommitValue:
    """Read the value that belongs to an OffsetCommitKey."""
    return _decode_value(OffsetCommitValue, data)


def decode_group_metadata_value(data: Buffer) -> GroupMetadataValue:
    """Read the value that belongs to a GroupMetadataKey."""
    return _decode_value(GroupMetadataValue, data)


def _decode_value(schema: type[V], data: Buffer) -> V:
    version, rest = _split(data)
    if version not in _VALUE_VERSIONS:
        raise UnsupportedVersion(f"{schema.__name__} v{version}")
    return decode(schema, version, rest, flexible=version >= _VALUE_FLEXIBLE_SINCE)


def _split(data: Buffer) -> tuple[int, memoryview]:
    view = memoryview(data)
    if len(view) < _PREFIX.size:
        raise BufferUnderflow("a coordinator record without its version")
    number: int = _PREFIX.unpack_from(view)[0]
    return number, view[_PREFIX.size :]
