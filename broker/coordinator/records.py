"""What the coordinator keeps on the stream: Kafka's own `__consumer_offsets` records.

Three kinds matter here: the committed offset of one partition, the whole of one classic group
(generation, protocol, members with their assignments), and the parts of one KIP-848 group. A null
value deletes its key. Records of share and streams groups are skipped.
Source: OffsetCommitKey/Value.json, GroupMetadataKey/Value.json, ConsumerGroup*Key/Value.json.
"""

from typing import NamedTuple, TypeAlias

from tailrace.broker.replicated.effects import StateRecord
from tailrace.protocol.errors import UnexpectedNull, UnsupportedVersion
from tailrace.protocol.ids import Buffer
from tailrace.protocol.kafka.messages.consumer_group_records import (
    GroupKey,
    GroupValue,
    decode_group_key,
    decode_group_value,
)
from tailrace.protocol.kafka.messages.coordinator_records import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
    decode_group_metadata_value,
    decode_key,
    decode_offset_commit_value,
    encode_key,
    encode_value,
)


class CommittedOffset(NamedTuple):
    """What a group committed for one partition."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int = -1
    """When it lapses by the committer's own wish; -1 if it had none."""


class OffsetName(NamedTuple):
    """Whose committed offset: a group's, of one partition."""

    group_id: str
    topic: str
    partition: int


class OffsetUpdate(NamedTuple):
    """A new committed offset of one partition; None deletes it."""

    group_id: str
    topic: str
    partition: int
    committed: CommittedOffset | None

    @property
    def name(self) -> OffsetName:
        """Return what is changed."""
        return OffsetName(*self[:3])


class GroupUpdate(NamedTuple):
    """A group as it was written; None deletes it."""

    group_id: str
    value: GroupMetadataValue | None


class ConsumerGroupUpdate(NamedTuple):
    """One of the records of a KIP-848 group; no value deletes its key."""

    key: GroupKey
    value: GroupValue | None

    @property
    def group_id(self) -> str:
        """Return the group's id."""
        return self.key.group_id


Update: TypeAlias = OffsetUpdate | GroupUpdate | ConsumerGroupUpdate


def group_record(group_id: str, value: GroupMetadataValue | None) -> StateRecord:
    """Return the record that stores a group, or deletes it."""
    key = encode_key(GroupMetadataKey(group=group_id))
    return StateRecord(key, None if value is None else encode_value(value))


def offset_record(update: OffsetUpdate) -> StateRecord:
    """Return the record that stores one committed offset, or deletes it."""
    name = OffsetCommitKey(group=update.group_id, topic=update.topic, partition=update.partition)
    committed = update.committed
    if committed is None:
        return StateRecord(encode_key(name), None)
    value = OffsetCommitValue(
        offset=committed.offset,
        leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
        commit_timestamp=committed.commit_timestamp_ms,
        expire_timestamp=committed.expire_timestamp_ms,
    )
    return StateRecord(encode_key(name), encode_value(value))


def read_record(key: Buffer | None, value: Buffer | None) -> Update | None:
    """Return what a record says, None for a kind that is not ours.

    Errors: DecodeError family and UnsupportedVersion for bytes that are no such record.
    """
    if key is None:
        raise UnexpectedNull("a coordinator record without a key")
    try:
        name = decode_key(key)
    except UnsupportedVersion:
        return _read_consumer_group_record(key, value)
    if isinstance(name, GroupMetadataKey):
        return GroupUpdate(
            name.group, None if value is None else decode_group_metadata_value(value)
        )
    committed = None if value is None else _committed(decode_offset_commit_value(value))
    return OffsetUpdate(name.group, name.topic, name.partition, committed)


def _read_consumer_group_record(key: Buffer, value: Buffer | None) -> Update | None:
    try:
        name = decode_group_key(key)
    except UnsupportedVersion:
        return None
    return ConsumerGroupUpdate(name, None if value is None else decode_group_value(name, value))


def _committed(value: OffsetCommitValue) -> CommittedOffset:
    return CommittedOffset(
        value.offset,
        value.leader_epoch,
        value.metadata,
        value.commit_timestamp,
        value.expire_timestamp,
    )
