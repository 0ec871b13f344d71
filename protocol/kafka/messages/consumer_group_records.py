"""Records of KIP-848 groups in `__consumer_offsets`, types 3 to 8 and 16, in Kafka's own schemas.

A group is spread over several keys: one for itself, one for its target assignment, three for each
member, one for each regular expression. A key is int16 record type + fields, a value int16 schema
version + fields; no value is a tombstone.
Source: Kafka group-coordinator, common/message/ConsumerGroup*.json; KIP-848, "Records".
"""

from collections.abc import Sequence
from dataclasses import dataclass
from struct import Struct
from typing import Any, Final, TypeAlias

from tailrace.protocol.errors import BufferUnderflow, UnsupportedVersion
from tailrace.protocol.ids import Buffer
from tailrace.protocol.kafka.primitives import BYTES, INT8, INT32, INT64, STRING, UUID
from tailrace.protocol.kafka.wire import array, decode, encode, join, wire


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupMetadataKey:
    """Source: Kafka ConsumerGroupMetadataKey.json (type 3), v0."""

    group_id: str = wire(STRING)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupMetadataValue:
    """Source: Kafka ConsumerGroupMetadataValue.json (type 3), v0."""

    epoch: int = wire(INT32)
    metadata_hash: int = wire(INT64, tag=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupPartitionMetadataKey:
    """Source: Kafka ConsumerGroupPartitionMetadataKey.json (type 4), v0."""

    group_id: str = wire(STRING)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionMetadata:
    """Part of ConsumerGroupPartitionMetadataValue."""

    partition: int = wire(INT32)
    racks: Sequence[str] = wire(array(STRING))


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicMetadata:
    """Part of ConsumerGroupPartitionMetadataValue."""

    topic_id: bytes = wire(UUID)
    topic_name: str = wire(STRING)
    num_partitions: int = wire(INT32)
    partition_metadata: Sequence[PartitionMetadata] = wire(array(PartitionMetadata))


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupPartitionMetadataValue:
    """Source: Kafka ConsumerGroupPartitionMetadataValue.json (type 4), v0; read only."""

    topics: Sequence[TopicMetadata] = wire(array(TopicMetadata))


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupMemberMetadataKey:
    """Source: Kafka ConsumerGroupMemberMetadataKey.json (type 5), v0."""

    group_id: str = wire(STRING)
    member_id: str = wire(STRING)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicProtocol:
    """Part of ConsumerGroupMemberMetadataValue."""

    name: str = wire(STRING)
    metadata: bytes = wire(BYTES)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicMemberMetadata:
    """Part of ConsumerGroupMemberMetadataValue."""

    session_timeout_ms: int = wire(INT32)
    supported_protocols: Sequence[ClassicProtocol] = wire(array(ClassicProtocol))


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupMemberMetadataValue:
    """Source: Kafka ConsumerGroupMemberMetadataValue.json (type 5), v0."""

    instance_id: str | None = wire(STRING, nullable_since=0)
    rack_id: str | None = wire(STRING, nullable_since=0)
    client_id: str = wire(STRING)
    client_host: str = wire(STRING)
    subscribed_topic_names: Sequence[str] = wire(array(STRING))
    subscribed_topic_regex: str | None = wire(STRING, nullable_since=0)
    rebalance_timeout_ms: int = wire(INT32, default=-1)
    server_assignor: str | None = wire(STRING, nullable_since=0)
    classic_member_metadata: ClassicMemberMetadata | None = wire(
        ClassicMemberMetadata, nullable_since=0, tag=0, default=None
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupTargetAssignmentMetadataKey:
    """Source: Kafka ConsumerGroupTargetAssignmentMetadataKey.json (type 6), v0."""

    group_id: str = wire(STRING)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupTargetAssignmentMetadataValue:
    """Source: Kafka ConsumerGroupTargetAssignmentMetadataValue.json (type 6), v0."""

    assignment_epoch: int = wire(INT32)
    assignment_timestamp: int = wire(INT64, tag=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupTargetAssignmentMemberKey:
    """Source: Kafka ConsumerGroupTargetAssignmentMemberKey.json (type 7), v0."""

    group_id: str = wire(STRING)
    member_id: str = wire(STRING)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPartition:
    """Part of ConsumerGroupTargetAssignmentMemberValue."""

    topic_id: bytes = wire(UUID)
    partitions: Sequence[int] = wire(array(INT32))


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupTargetAssignmentMemberValue:
    """Source: Kafka ConsumerGroupTargetAssignmentMemberValue.json (type 7), v0."""

    topic_partitions: Sequence[TopicPartition] = wire(array(TopicPartition))


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupCurrentMemberAssignmentKey:
    """Source: Kafka ConsumerGroupCurrentMemberAssignmentKey.json (type 8), v0."""

    group_id: str = wire(STRING)
    member_id: str = wire(STRING)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPartitions:
    """Part of ConsumerGroupCurrentMemberAssignmentValue."""

    topic_id: bytes = wire(UUID)
    partitions: Sequence[int] = wire(array(INT32))
    assignment_epochs: Sequence[int] | None = wire(array(INT32), nullable_since=0, tag=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupCurrentMemberAssignmentValue:
    """Source: Kafka ConsumerGroupCurrentMemberAssignmentValue.json (type 8), v0."""

    member_epoch: int = wire(INT32)
    previous_member_epoch: int = wire(INT32)
    state: int = wire(INT8)
    assigned_partitions: Sequence[TopicPartitions] = wire(array(TopicPartitions))
    partitions_pending_revocation: Sequence[TopicPartitions] = wire(array(TopicPartitions))


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupRegularExpressionKey:
    """Source: Kafka ConsumerGroupRegularExpressionKey.json (type 16), v0."""

    group_id: str = wire(STRING)
    regular_expression: str = wire(STRING)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupRegularExpressionValue:
    """Source: Kafka ConsumerGroupRegularExpressionValue.json (type 16), v0."""

    topics: Sequence[str] = wire(array(STRING))
    version: int = wire(INT64)
    timestamp: int = wire(INT64)


GroupKey: TypeAlias = (
    ConsumerGroupMetadataKey
    | ConsumerGroupPartitionMetadataKey
    | ConsumerGroupMemberMetadataKey
    | ConsumerGroupTargetAssignmentMetadataKey
    | ConsumerGroupTargetAssignmentMemberKey
    | ConsumerGroupCurrentMemberAssignmentKey
    | ConsumerGroupRegularExpressionKey
)
GroupValue: TypeAlias = (
    ConsumerGroupMetadataValue
    | ConsumerGroupPartitionMetadataValue
    | ConsumerGroupMemberMetadataValue
    | ConsumerGroupTargetAssignmentMetadataValue
    | ConsumerGroupTargetAssignmentMemberValue
    | ConsumerGroupCurrentMemberAssignmentValue
    | ConsumerGroupRegularExpressionValue
)

RECORD_TYPES: Final[dict[int, tuple[type[GroupKey], type[GroupValue]]]] = {
    3: (ConsumerGroupMetadataKey, ConsumerGroupMetadataValue),
    4: (ConsumerGroupPartitionMetadataKey, ConsumerGroupPartitionMetadataValue),
    5: (ConsumerGroupMemberMetadataKey, ConsumerGroupMemberMetadataValue),
    6: (ConsumerGroupTargetAssignmentMetadataKey, ConsumerGroupTargetAssignmentMetadataValue),
    7: (ConsumerGroupTargetAssignmentMemberKey, ConsumerGroupTargetAssignmentMemberValue),
    8: (ConsumerGroupCurrentMemberAssignmentKey, ConsumerGroupCurrentMemberAssignmentValue),
    16: (ConsumerGroupRegularExpressionKey, ConsumerGroupRegularExpressionValue),
}
"""Key and value of each record type."""

_PREFIX: Final = Struct(">h")
_TYPE_OF: Final[dict[type[Any], int]] = {key: kind for kind, (key, _) in RECORD_TYPES.items()}


def encode_group_key(key: GroupKey) -> bytes:
    """Return a record key: its type, then its fields."""
    return join([_PREFIX.pack(_TYPE_OF[type(key)]), *encode(key, 0, flexible=False)])


def encode_group_value(value: GroupValue) -> bytes:
    """Return a record value: schema version 0, then its fields."""
    return join([_PREFIX.pack(0), *encode(value, 0, flexible=True)])


def decode_group_key(data: Buffer) -> GroupKey:
    """Read a record key. Errors: DecodeError family; UnsupportedVersion for other record types."""
    kind, rest = _split(data)
    if kind not in RECORD_TYPES:
        raise UnsupportedVersion(f"coordinator record type {kind}")
    return decode(RECORD_TYPES[kind][0], 0, rest, flexible=False)


def decode_group_value(key: GroupKey, data: Buffer) -> GroupValue:
    """Read the value that belongs to `key`. Errors: as `decode_group_key`."""
    version, rest = _split(data)
    schema = RECORD_TYPES[_TYPE_OF[type(key)]][1]
    if version != 0:
        raise UnsupportedVersion(f"{schema.__name__} v{version}")
    return decode(schema, 0, rest, flexible=True)


def _split(data: Buffer) -> tuple[int, memoryview]:
    view = memoryview(data)
    if len(view) < _PREFIX.size:
        raise BufferUnderflow("a coordinator record without its version")
    number: int = _PREFIX.unpack_from(view)[0]
    return number, view[_PREFIX.size :]
