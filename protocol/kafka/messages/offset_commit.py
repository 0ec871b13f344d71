"""OffsetCommit, Kafka API 8, v2-10: what is on the wire, by Kafka's own names."""

from collections.abc import Sequence
from dataclasses import dataclass

from tailrace.protocol.kafka.primitives import INT16, INT32, INT64, STRING, UUID
from tailrace.protocol.kafka.wire import array, wire


@dataclass(slots=True, kw_only=True)
class OffsetCommitRequestPartition:
    """Part of OffsetCommitRequest."""

    partition_index: int = wire(INT32)
    committed_offset: int = wire(INT64)
    committed_leader_epoch: int = wire(INT32, since=6, default=-1)
    committed_metadata: str | None = wire(STRING, nullable_since=0)


@dataclass(slots=True, kw_only=True)
class OffsetCommitRequestTopic:
    """Part of OffsetCommitRequest."""

    name: str = wire(STRING, until=9)
    topic_id: bytes = wire(UUID, since=10)
    partitions: Sequence[OffsetCommitRequestPartition] = wire(array(OffsetCommitRequestPartition))


@dataclass(slots=True, kw_only=True)
class OffsetCommitRequest:
    """Source: Kafka OffsetCommitRequest.json, v2-10."""

    group_id: str = wire(STRING)
    generation_id_or_member_epoch: int = wire(INT32, since=1, default=-1)
    member_id: str = wire(STRING, since=1)
    group_instance_id: str | None = wire(STRING, since=7, nullable_since=7, default=None)
    retention_time_ms: int = wire(INT64, since=2, until=4, default=-1)
    topics: Sequence[OffsetCommitRequestTopic] = wire(array(OffsetCommitRequestTopic))


@dataclass(slots=True, kw_only=True)
class OffsetCommitResponsePartition:
    """Part of OffsetCommitResponse."""

    partition_index: int = wire(INT32)
    error_code: int = wire(INT16)


@dataclass(slots=True, kw_only=True)
class OffsetCommitResponseTopic:
    """Part of OffsetCommitResponse."""

    name: str = wire(STRING, until=9)
    topic_id: bytes = wire(UUID, since=10)
    partitions: Sequence[OffsetCommitResponsePartition] = wire(array(OffsetCommitResponsePartition))


@dataclass(slots=True, kw_only=True)
class OffsetCommitResponse:
    """Source: Kafka OffsetCommitResponse.json, v2-10."""

    throttle_time_ms: int = wire(INT32, since=3)
    topics: Sequence[OffsetCommitResponseTopic] = wire(array(OffsetCommitResponseTopic))
