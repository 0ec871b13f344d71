"""ElectLeaders, Kafka API 43, v0-2: what is on the wire, by Kafka's own names."""

from collections.abc import Sequence
from dataclasses import dataclass

from tailrace.protocol.kafka.primitives import INT8, INT16, INT32, STRING
from tailrace.protocol.kafka.wire import array, wire


@dataclass(slots=True, kw_only=True)
class TopicPartitions:
    """Part of ElectLeadersRequest."""

    topic: str = wire(STRING)
    partitions: Sequence[int] = wire(array(INT32))


@dataclass(slots=True, kw_only=True)
class ElectLeadersRequest:
    """Source: Kafka ElectLeadersRequest.json, v0-2."""

    election_type: int = wire(INT8, since=1)
    topic_partitions: Sequence[TopicPartitions] | None = wire(
        array(TopicPartitions), nullable_since=0
    )
    timeout_ms: int = wire(INT32, default=60000)


@dataclass(slots=True, kw_only=True)
class PartitionResult:
    """Part of ElectLeadersResponse."""

    partition_id: int = wire(INT32)
    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, nullable_since=0)


@dataclass(slots=True, kw_only=True)
class ReplicaElectionResult:
    """Part of ElectLeadersResponse."""

    topic: str = wire(STRING)
    partition_result: Sequence[PartitionResult] = wire(array(PartitionResult))


@dataclass(slots=True, kw_only=True)
class ElectLeadersResponse:
    """Source: Kafka ElectLeadersResponse.json, v0-2."""

    throttle_time_ms: int = wire(INT32)
    error_code: int = wire(INT16, since=1)
    replica_election_results: Sequence[ReplicaElectionResult] = wire(array(ReplicaElectionResult))
