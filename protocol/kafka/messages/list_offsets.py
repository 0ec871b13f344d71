"""ListOffsets, Kafka API 2, v1-11: what is on the wire, by Kafka's own names."""

from collections.abc import Sequence
from dataclasses import dataclass

from tailrace.protocol.kafka.primitives import INT8, INT16, INT32, INT64, STRING
from tailrace.protocol.kafka.wire import array, wire


@dataclass(slots=True, kw_only=True)
class ListOffsetsPartition:
    """Part of ListOffsetsRequest."""

    partition_index: int = wire(INT32)
    current_leader_epoch: int = wire(INT32, since=4, default=-1)
    timestamp: int = wire(INT64)


@dataclass(slots=True, kw_only=True)
class ListOffsetsTopic:
    """Part of ListOffsetsRequest."""

    name: str = wire(STRING)
    partitions: Sequence[ListOffsetsPartition] = wire(array(ListOffsetsPartition))


@dataclass(slots=True, kw_only=True)
class ListOffsetsRequest:
    """Source: Kafka ListOffsetsRequest.json, v1-11."""

    replica_id: int = wire(INT32)
    isolation_level: int = wire(INT8, since=2)
    topics: Sequence[ListOffsetsTopic] = wire(array(ListOffsetsTopic))
    timeout_ms: int = wire(INT32, since=10)


@dataclass(slots=True, kw_only=True)
class ListOffsetsPartitionResponse:
    """Part of ListOffsetsResponse."""

    partition_index: int = wire(INT32)
    error_code: int = wire(INT16)
    timestamp: int = wire(INT64, since=1, default=-1)
    offset: int = wire(INT64, since=1, default=-1)
    leader_epoch: int = wire(INT32, since=4, default=-1)


@dataclass(slots=True, kw_only=True)
class ListOffsetsTopicResponse:
    """Part of ListOffsetsResponse."""

    name: str = wire(STRING)
    partitions: Sequence[ListOffsetsPartitionResponse] = wire(array(ListOffsetsPartitionResponse))


@dataclass(slots=True, kw_only=True)
class ListOffsetsResponse:
    """Source: Kafka ListOffsetsResponse.json, v1-11."""

    throttle_time_ms: int = wire(INT32, since=2)
    topics: Sequence[ListOffsetsTopicResponse] = wire(array(ListOffsetsTopicResponse))
