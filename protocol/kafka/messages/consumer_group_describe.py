"""ConsumerGroupDescribe, Kafka API 69, v0-1: what is on the wire, by Kafka's own names."""

from collections.abc import Sequence
from dataclasses import dataclass

from tailrace.protocol.kafka.primitives import BOOL, INT8, INT16, INT32, STRING, UUID
from tailrace.protocol.kafka.wire import array, wire


@dataclass(slots=True, kw_only=True)
class ConsumerGroupDescribeRequest:
    """Source: Kafka ConsumerGroupDescribeRequest.json, v0-1."""

    group_ids: Sequence[str] = wire(array(STRING))
    include_authorized_operations: bool = wire(BOOL)


@dataclass(slots=True, kw_only=True)
class TopicPartitions:
    """Part of ConsumerGroupDescribeResponse."""

    topic_id: bytes = wire(UUID)
    topic_name: str = wire(STRING)
    partitions: Sequence[int] = wire(array(INT32))


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """Part of ConsumerGroupDescribeResponse."""

    topic_partitions: Sequence[TopicPartitions] = wire(array(TopicPartitions))


@dataclass(slots=True, kw_only=True)
class Member:
    """Part of ConsumerGroupDescribeResponse."""

    member_id: str = wire(STRING)
    instance_id: str | None = wire(STRING, nullable_since=0, default=None)
    rack_id: str | None = wire(STRING, nullable_since=0, default=None)
    member_epoch: int = wire(INT32)
    client_id: str = wire(STRING)
    client_host: str = wire(STRING)
    subscribed_topic_names: Sequence[str] = wire(array(STRING))
    subscribed_topic_regex: str | None = wire(STRING, nullable_since=0, default=None)
    assignment: Assignment = wire(Assignment)
    target_assignment: Assignment = wire(Assignment)
    member_type: int = wire(INT8, since=1, default=-1)


@dataclass(slots=True, kw_only=True)
class DescribedGroup:
    """Part of ConsumerGroupDescribeResponse."""

    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, nullable_since=0, default=None)
    group_id: str = wire(STRING)
    group_state: str = wire(STRING)
    group_epoch: int = wire(INT32)
    assignment_epoch: int = wire(INT32)
    assignor_name: str = wire(STRING)
    members: Sequence[Member] = wire(array(Member))
    authorized_operations: int = wire(INT32, default=-2147483648)


@dataclass(slots=True, kw_only=True)
class ConsumerGroupDescribeResponse:
    """Source: Kafka ConsumerGroupDescribeResponse.json, v0-1."""

    throttle_time_ms: int = wire(INT32)
    groups: Sequence[DescribedGroup] = wire(array(DescribedGroup))
