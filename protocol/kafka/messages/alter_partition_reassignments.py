"""AlterPartitionReassignments, Kafka API 45, v0-1: what is on the wire, by Kafka's own names."""

from collections.abc import Sequence
from dataclasses import dataclass

from tailrace.protocol.kafka.primitives import BOOL, INT16, INT32, STRING
from tailrace.protocol.kafka.wire import array, wire


@dataclass(slots=True, kw_only=True)
class ReassignablePartition:
    """Part of AlterPartitionReassignmentsRequest."""

    partition_index: int = wire(INT32)
    replicas: Sequence[int] | None = wire(array(INT32), nullable_since=0, default=None)


@dataclass(slots=True, kw_only=True)
class ReassignableTopic:
    """Part of AlterPartitionReassignmentsRequest."""

    name: str = wire(STRING)
    partitions: Sequence[ReassignablePartition] = wire(array(ReassignablePartition))


@dataclass(slots=True, kw_only=True)
class AlterPartitionReassignmentsRequest:
    """Source: Kafka AlterPartitionReassignmentsRequest.json, v0-1."""

    timeout_ms: int = wire(INT32, default=60000)
    allow_replication_factor_change: bool = wire(BOOL, since=1, default=True)
    topics: Sequence[ReassignableTopic] = wire(array(ReassignableTopic))


@dataclass(slots=True, kw_only=True)
class ReassignablePartitionResponse:
    """Part of AlterPartitionReassignmentsResponse."""

    partition_index: int = wire(INT32)
    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, nullable_since=0)


@dataclass(slots=True, kw_only=True)
class ReassignableTopicResponse:
    """Part of AlterPartitionReassignmentsResponse."""

    name: str = wire(STRING)
    partitions: Sequence[ReassignablePartitionResponse] = wire(array(ReassignablePartitionResponse))


@dataclass(slots=True, kw_only=True)
class AlterPartitionReassignmentsResponse:
    """Source: Kafka AlterPartitionReassignmentsResponse.json, v0-1."""

    throttle_time_ms: int = wire(INT32)
    allow_replication_factor_change: bool = wire(BOOL, since=1, default=True)
    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, nullable_since=0)
    responses: Sequence[ReassignableTopicResponse] = wire(array(ReassignableTopicResponse))
