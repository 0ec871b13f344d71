"""ConsumerGroupHeartbeat, Kafka API 68, v0-1: what is on the wire, by Kafka's own names."""

from collections.abc import Sequence
from dataclasses import dataclass

from tailrace.protocol.kafka.primitives import INT16, INT32, STRING, UUID
from tailrace.protocol.kafka.wire import array, wire


@dataclass(slots=True, kw_only=True)
class TopicPartitions:
    """Part of ConsumerGroupHeartbeatRequest and its response."""

    topic_id: bytes = wire(UUID)
    partitions: Sequence[int] = wire(array(INT32))


@dataclass(slots=True, kw_only=True)
class ConsumerGroupHeartbeatRequest:
    """Source: Kafka ConsumerGroupHeartbeatRequest.json, v0-1."""

    group_id: str = wire(STRING)
    member_id: str = wire(STRING)
    member_epoch: int = wire(INT32)
    instance_id: str | None = wire(STRING, nullable_since=0, default=None)
    rack_id: str | None = wire(STRING, nullable_since=0, default=None)
    rebalance_timeout_ms: int = wire(INT32, default=-1)
    subscribed_topic_names: Sequence[str] | None = wire(
        array(STRING), nullable_since=0, default=None
    )
    subscribed_topic_regex: str | None = wire(STRING, since=1, nullable_since=1, default=None)
    server_assignor: str | None = wire(STRING, nullable_since=0, default=None)
    topic_partitions: Sequence[TopicPartitions] | None = wire(
        array(TopicPartitions), nullable_since=0, default=None
    )


@dataclass(slots=True, kw_only=True)
class Assignment:
    """Part of ConsumerGroupHeartbeatResponse."""

    topic_partitions: Sequence[TopicPartitions] = wire(array(TopicPartitions))


@dataclass(slots=True, kw_only=True)
class ConsumerGroupHeartbeatResponse:
    """Source: Kafka ConsumerGroupHeartbeatResponse.json, v0-1."""

    throttle_time_ms: int = wire(INT32)
    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, nullable_since=0, default=None)
    member_id: str | None = wire(STRING, nullable_since=0, default=None)
    member_epoch: int = wire(INT32)
    heartbeat_interval_ms: int = wire(INT32)
    assignment: Assignment | None = wire(Assignment, nullable_since=0, default=None)
