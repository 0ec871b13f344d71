"""OffsetDelete, Kafka API 47, v0: what is on the wire, by Kafka's own names."""

from collections.abc import Sequence
from dataclasses import dataclass

from tailrace.protocol.kafka.primitives import INT16, INT32, STRING
from tailrace.protocol.kafka.wire import array, wire


@dataclass(slots=True, kw_only=True)
class OffsetDeleteRequestPartition:
    """Part of OffsetDeleteRequest."""

    partition_index: int = wire(INT32)


@dataclass(slots=True, kw_only=True)
class OffsetDeleteRequestTopic:
    """Part of OffsetDeleteRequest."""

    name: str = wire(STRING)
    partitions: Sequence[OffsetDeleteRequestPartition] = wire(array(OffsetDeleteRequestPartition))


@dataclass(slots=True, kw_only=True)
class OffsetDeleteRequest:
    """Source: Kafka OffsetDeleteRequest.json, v0."""

    group_id: str = wire(STRING)
    topics: Sequence[OffsetDeleteRequestTopic] = wire(array(OffsetDeleteRequestTopic))


@dataclass(slots=True, kw_only=True)
class OffsetDeleteResponsePartition:
    """Part of OffsetDeleteResponse."""

    partition_index: int = wire(INT32)
    error_code: int = wire(INT16)


@dataclass(slots=True, kw_only=True)
class OffsetDeleteResponseTopic:
    """Part of OffsetDeleteResponse."""

    name: str = wire(STRING)
    partitions: Sequence[OffsetDeleteResponsePartition] = wire(array(OffsetDeleteResponsePartition))


@dataclass(slots=True, kw_only=True)
class OffsetDeleteResponse:
    """Source: Kafka OffsetDeleteResponse.json, v0."""

    error_code: int = wire(INT16)
    throttle_time_ms: int = wire(INT32)
    topics: Sequence[OffsetDeleteResponseTopic] = wire(array(OffsetDeleteResponseTopic))
