"""OffsetForLeaderEpoch, Kafka API 23, v2-4: what is on the wire, by Kafka's own names."""

from collections.abc import Sequence
from dataclasses import dataclass

from tailrace.protocol.kafka.primitives import INT16, INT32, INT64, STRING
from tailrace.protocol.kafka.wire import array, wire


@dataclass(slots=True, kw_only=True)
class OffsetForLeaderPartition:
    """Part of OffsetForLeaderEpochRequest."""

    partition: int = wire(INT32)
    current_leader_epoch: int = wire(INT32, since=2, default=-1)
    leader_epoch: int = wire(INT32)


@dataclass(slots=True, kw_only=True)
class OffsetForLeaderTopic:
    """Part of OffsetForLeaderEpochRequest."""

    topic: str = wire(STRING)
    partitions: Sequence[OffsetForLeaderPartition] = wire(array(OffsetForLeaderPartition))


@dataclass(slots=True, kw_only=True)
class OffsetForLeaderEpochRequest:
    """Source: Kafka OffsetForLeaderEpochRequest.json, v2-4."""

    replica_id: int = wire(INT32, since=3, default=-2)
    topics: Sequence[OffsetForLeaderTopic] = wire(array(OffsetForLeaderTopic))


@dataclass(slots=True, kw_only=True)
class EpochEndOffset:
    """Part of OffsetForLeaderEpochResponse."""

    error_code: int = wire(INT16)
    partition: int = wire(INT32)
    leader_epoch: int = wire(INT32, since=1, default=-1)
    end_offset: int = wire(INT64, default=-1)


@dataclass(slots=True, kw_only=True)
class OffsetForLeaderTopicResult:
    """Part of OffsetForLeaderEpochResponse."""

    topic: str = wire(STRING)
    partitions: Sequence[EpochEndOffset] = wire(array(EpochEndOffset))


@dataclass(slots=True, kw_only=True)
class OffsetForLeaderEpochResponse:
    """Source: Kafka OffsetForLeaderEpochResponse.json, v2-4."""

    throttle_time_ms: int = wire(INT32, since=2)
    topics: Sequence[OffsetForLeaderTopicResult] = wire(array(OffsetForLeaderTopicResult))
