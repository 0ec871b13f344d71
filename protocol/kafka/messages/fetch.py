"""Fetch, Kafka API 1, v4-18: what is on the wire, by Kafka's own names."""

from collections.abc import Sequence
from dataclasses import dataclass

from tailrace.protocol.ids import Buffer
from tailrace.protocol.kafka.primitives import INT8, INT16, INT32, INT64, RECORDS, STRING, UUID
from tailrace.protocol.kafka.wire import array, hot_message, wire


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaState:
    """Part of FetchRequest."""

    replica_id: int = wire(INT32, since=15, default=-1)
    replica_epoch: int = wire(INT64, since=15, default=-1)


@hot_message
class FetchPartition:
    """Part of FetchRequest."""

    partition: int = wire(INT32)
    current_leader_epoch: int = wire(INT32, since=9, default=-1)
    fetch_offset: int = wire(INT64)
    last_fetched_epoch: int = wire(INT32, since=12, default=-1)
    log_start_offset: int = wire(INT64, since=5, default=-1)
    partition_max_bytes: int = wire(INT32)
    replica_directory_id: bytes = wire(UUID, since=17, tag=0)
    high_watermark: int = wire(INT64, since=18, tag=1, default=(1 << 63) - 1)


@hot_message
class FetchTopic:
    """Part of FetchRequest."""

    topic: str = wire(STRING, until=12)
    topic_id: bytes = wire(UUID, since=13)
    partitions: Sequence[FetchPartition] = wire(array(FetchPartition))


@hot_message
class ForgottenTopic:
    """Part of FetchRequest."""

    topic: str = wire(STRING, since=7, until=12)
    topic_id: bytes = wire(UUID, since=13)
    partitions: Sequence[int] = wire(array(INT32), since=7)


@hot_message
class FetchRequest:
    """Source: Kafka FetchRequest.json, v4-18."""

    cluster_id: str | None = wire(STRING, since=12, nullable_since=12, tag=0, default=None)
    replica_id: int = wire(INT32, until=14, default=-1)
    replica_state: ReplicaState = wire(ReplicaState, since=15, tag=1)
    max_wait_ms: int = wire(INT32)
    min_bytes: int = wire(INT32)
    max_bytes: int = wire(INT32, since=3, default=0x7FFFFFFF)
    isolation_level: int = wire(INT8, since=4)
    session_id: int = wire(INT32, since=7)
    session_epoch: int = wire(INT32, since=7, default=-1)
    topics: Sequence[FetchTopic] = wire(array(FetchTopic))
    forgotten_topics_data: Sequence[ForgottenTopic] = wire(array(ForgottenTopic), since=7)
    rack_id: str = wire(STRING, since=11)


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochEndOffset:
    """Part of FetchResponse."""

    epoch: int = wire(INT32, since=12, default=-1)
    end_offset: int = wire(INT64, since=12, default=-1)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderIdAndEpoch:
    """Part of FetchResponse."""

    leader_id: int = wire(INT32, since=12, default=-1)
    leader_epoch: int = wire(INT32, since=12, default=-1)


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotId:
    """Part of FetchResponse."""

    end_offset: int = wire(INT64, default=-1)
    epoch: int = wire(INT32, default=-1)


@hot_message
class AbortedTransaction:
    """Part of FetchResponse."""

    producer_id: int = wire(INT64, since=4)
    first_offset: int = wire(INT64, since=4)


@hot_message
class PartitionData:
    """Part of FetchResponse."""

    partition_index: int = wire(INT32)
    error_code: int = wire(INT16)
    high_watermark: int = wire(INT64)
    last_stable_offset: int = wire(INT64, since=4, default=-1)
    log_start_offset: int = wire(INT64, since=5, default=-1)
    diverging_epoch: EpochEndOffset = wire(EpochEndOffset, since=12, tag=0)
    current_leader: LeaderIdAndEpoch = wire(LeaderIdAndEpoch, since=12, tag=1)
    snapshot_id: SnapshotId = wire(SnapshotId, since=12, tag=2)
    aborted_transactions: Sequence[AbortedTransaction] | None = wire(
        array(AbortedTransaction), since=4, nullable_since=4
    )
    preferred_read_replica: int = wire(INT32, since=11, default=-1)
    records: Buffer | Sequence[Buffer] | None = wire(RECORDS, nullable_since=0)


@hot_message
class FetchableTopicResponse:
    """Part of FetchResponse."""

    topic: str = wire(STRING, until=12)
    topic_id: bytes = wire(UUID, since=13)
    partitions: Sequence[PartitionData] = wire(array(PartitionData))


@hot_message
class NodeEndpoint:
    """Part of FetchResponse."""

    node_id: int = wire(INT32, since=16)
    host: str = wire(STRING, since=16)
    port: int = wire(INT32, since=16)
    rack: str | None = wire(STRING, since=16, nullable_since=16, default=None)


@hot_message
class FetchResponse:
    """Source: Kafka FetchResponse.json, v4-18."""

    throttle_time_ms: int = wire(INT32, since=1)
    error_code: int = wire(INT16, since=7)
    session_id: int = wire(INT32, since=7)
    responses: Sequence[FetchableTopicResponse] = wire(array(FetchableTopicResponse))
    node_endpoints: Sequence[NodeEndpoint] = wire(array(NodeEndpoint), since=16, tag=0)
