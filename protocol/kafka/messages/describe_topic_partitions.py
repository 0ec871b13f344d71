"""DescribeTopicPartitions, Kafka API 75, v0: what is on the wire, by Kafka's own names."""

from collections.abc import Sequence
from dataclasses import dataclass

from tailrace.protocol.kafka.primitives import BOOL, INT16, INT32, STRING, UUID
from tailrace.protocol.kafka.wire import array, wire


@dataclass(slots=True, kw_only=True)
class TopicRequest:
    """Part of DescribeTopicPartitionsRequest."""

    name: str = wire(STRING)


@dataclass(slots=True, kw_only=True)
class Cursor:
    """Part of DescribeTopicPartitionsRequest and of its response."""

    topic_name: str = wire(STRING)
    partition_index: int = wire(INT32)


@dataclass(slots=True, kw_only=True)
class DescribeTopicPartitionsRequest:
    """Source: Kafka DescribeTopicPartitionsRequest.json, v0."""

    topics: Sequence[TopicRequest] = wire(array(TopicRequest))
    response_partition_limit: int = wire(INT32, default=2000)
    cursor: Cursor | None = wire(Cursor, nullable_since=0, default=None)


@dataclass(slots=True, kw_only=True)
class DescribeTopicPartitionsResponsePartition:
    """Part of DescribeTopicPartitionsResponse."""

    error_code: int = wire(INT16)
    partition_index: int = wire(INT32)
    leader_id: int = wire(INT32)
    leader_epoch: int = wire(INT32, default=-1)
    replica_nodes: Sequence[int] = wire(array(INT32))
    isr_nodes: Sequence[int] = wire(array(INT32))
    eligible_leader_replicas: Sequence[int] | None = wire(
        array(INT32), nullable_since=0, default=None
    )
    last_known_elr: Sequence[int] | None = wire(array(INT32), nullable_since=0, default=None)
    offline_replicas: Sequence[int] = wire(array(INT32))


@dataclass(slots=True, kw_only=True)
class DescribeTopicPartitionsResponseTopic:
    """Part of DescribeTopicPartitionsResponse."""

    error_code: int = wire(INT16)
    name: str | None = wire(STRING, nullable_since=0)
    topic_id: bytes = wire(UUID)
    is_internal: bool = wire(BOOL)
    partitions: Sequence[DescribeTopicPartitionsResponsePartition] = wire(
        array(DescribeTopicPartitionsResponsePartition)
    )
    topic_authorized_operations: int = wire(INT32, default=-2147483648)


@dataclass(slots=True, kw_only=True)
class DescribeTopicPartitionsResponse:
    """Source: Kafka DescribeTopicPartitionsResponse.json, v0."""

    throttle_time_ms: int = wire(INT32)
    topics: Sequence[DescribeTopicPartitionsResponseTopic] = wire(
        array(DescribeTopicPartitionsResponseTopic)
    )
    next_cursor: Cursor | None = wire(Cursor, nullable_since=0, default=None)
