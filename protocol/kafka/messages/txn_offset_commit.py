"""TxnOffsetCommit, Kafka API 28, v0-5: what is on the wire, by Kafka's own names."""

from collections.abc import Sequence
from dataclasses import dataclass

from tailrace.protocol.kafka.primitives import INT16, INT32, INT64, STRING
from tailrace.protocol.kafka.wire import array, wire


@dataclass(slots=True, kw_only=True)
class TxnOffsetCommitRequestPartition:
    """Part of TxnOffsetCommitRequest."""

    partition_index: int = wire(INT32)
    committed_offset: int = wire(INT64)
    committed_leader_epoch: int = wire(INT32, since=2, default=-1)
    committed_metadata: str | None = wire(STRING, nullable_since=0)


@dataclass(slots=True, kw_only=True)
class TxnOffsetCommitRequestTopic:
    """Part of TxnOffsetCommitRequest."""

    name: str = wire(STRING)
    partitions: Sequence[TxnOffsetCommitRequestPartition] = wire(
        array(TxnOffsetCommitRequestPartition)
    )


@dataclass(slots=True, kw_only=True)
class TxnOffsetCommitRequest:
    """Source: Kafka TxnOffsetCommitRequest.json, v0-5."""

    transactional_id: str = wire(STRING)
    group_id: str = wire(STRING)
    producer_id: int = wire(INT64)
    producer_epoch: int = wire(INT16)
    generation_id: int = wire(INT32, since=3, default=-1)
    member_id: str = wire(STRING, since=3)
    group_instance_id: str | None = wire(STRING, since=3, nullable_since=3, default=None)
    topics: Sequence[TxnOffsetCommitRequestTopic] = wire(array(TxnOffsetCommitRequestTopic))


@dataclass(slots=True, kw_only=True)
class TxnOffsetCommitResponsePartition:
    """Part of TxnOffsetCommitResponse."""

    partition_index: int = wire(INT32)
    error_code: int = wire(INT16)


@dataclass(slots=True, kw_only=True)
class TxnOffsetCommitResponseTopic:
    """Part of TxnOffsetCommitResponse."""

    name: str = wire(STRING)
    partitions: Sequence[TxnOffsetCommitResponsePartition] = wire(
        array(TxnOffsetCommitResponsePartition)
    )


@dataclass(slots=True, kw_only=True)
class TxnOffsetCommitResponse:
    """Source: Kafka TxnOffsetCommitResponse.json, v0-5."""

    throttle_time_ms: int = wire(INT32)
    topics: Sequence[TxnOffsetCommitResponseTopic] = wire(array(TxnOffsetCommitResponseTopic))
