"""ListPartitionReassignments, Kafka API 46, v0: what is on the wire, by Kafka's own names."""

from collections.abc import Sequence
from dataclasses import dataclass

from tailrace.protocol.kafka.primitives import INT16, INT32, STRING
from tailrace.protocol.kafka.wire import array, wire


@dataclass(slots=True, kw_only=True)
class ListPartitionReassignmentsTopics:
    """Part of ListPartitionReassignmentsRequest."""

    name: str = wire(STRING)
    partition_indexes: Sequence[int] = wire(array(INT32))


@dataclass(slots=True, kw_only=True)
class ListPartitionReassignmentsRequest:
    """Source: Kafka ListPartitionReassignmentsRequest.json, v0."""

    timeout_ms: int = wire(INT32, default=60000)
    topics: Sequence[ListPartitionReassignmentsTopics] | None = wire(
        array(ListPartitionReassignmentsTopics), nullable_since=0, default=None
    )


@dataclass(slots=True, kw_only=True)
class OngoingPartitionReassignment:
    """Part of ListPartitionReassignmentsResponse."""

    partition_index: int = wire(INT32)
    replicas: Sequence[int] = wire(array(INT32))
    adding_replicas: Sequence[int] = wire(array(INT32))
    removing_replicas: Sequence[int] = wire(array(INT32))


@dataclass(slots=True, kw_only=True)
class OngoingTopicReassignment:
    """Part of ListPartitionReassignmentsResponse."""

    name: str = wire(STRING)
    partitions: Sequence[OngoingPartitionReassignment] = wire(array(OngoingPartitionReassignment))


@dataclass(slots=True, kw_only=True)
class ListPartitionReassignmentsResponse:
    """Source: Kafka ListPartitionReassignmentsResponse.json, v0."""

    throttle_time_ms: int = wire(INT32)
    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, nullable_since=0)
    topics: Sequence[OngoingTopicReassignment] = wire(array(OngoingTopicReassignment))
