"""OffsetFetch, Kafka API 9, v1-10: what is on the wire, by Kafka's own names."""

from collections.abc import Sequence
from dataclasses import dataclass

from tailrace.protocol.kafka.primitives import BOOL, INT16, INT32, INT64, STRING, UUID
from tailrace.protocol.kafka.wire import array, wire


@dataclass(slots=True, kw_only=True)
class OffsetFetchRequestTopic:
    """Part of OffsetFetchRequest."""

    name: str = wire(STRING, until=7)
    partition_indexes: Sequence[int] = wire(array(INT32), until=7)


@dataclass(slots=True, kw_only=True)
class OffsetFetchRequestTopics:
    """Part of OffsetFetchRequest."""

    name: str = wire(STRING, since=8, until=9)
    topic_id: bytes = wire(UUID, since=10)
    partition_indexes: Sequence[int] = wire(array(INT32), since=8)


@dataclass(slots=True, kw_only=True)
class OffsetFetchRequestGroup:
    """Part of OffsetFetchRequest."""

    group_id: str = wire(STRING, since=8)
    member_id: str | None = wire(STRING, since=9, nullable_since=9, default=None)
    member_epoch: int = wire(INT32, since=9, default=-1)
    topics: Sequence[OffsetFetchRequestTopics] | None = wire(
        array(OffsetFetchRequestTopics), since=8, nullable_since=8
    )


@dataclass(slots=True, kw_only=True)
class OffsetFetchRequest:
    """Source: Kafka OffsetFetchRequest.json, v1-10."""

    group_id: str = wire(STRING, until=7)
    topics: Sequence[OffsetFetchRequestTopic] | None = wire(
        array(OffsetFetchRequestTopic), until=7, nullable_since=2
    )
    groups: Sequence[OffsetFetchRequestGroup] = wire(array(OffsetFetchRequestGroup), since=8)
    require_stable: bool = wire(BOOL, since=7)


@dataclass(slots=True, kw_only=True)
class OffsetFetchResponsePartition:
    """Part of OffsetFetchResponse."""

    partition_index: int = wire(INT32, until=7)
    committed_offset: int = wire(INT64, until=7)
    committed_leader_epoch: int = wire(INT32, since=5, until=7, default=-1)
    metadata: str | None = wire(STRING, until=7, nullable_since=0)
    error_code: int = wire(INT16, until=7)


@dataclass(slots=True, kw_only=True)
class OffsetFetchResponseTopic:
    """Part of OffsetFetchResponse."""

    name: str = wire(STRING, until=7)
    partitions: Sequence[OffsetFetchResponsePartition] = wire(
        array(OffsetFetchResponsePartition), until=7
    )


@dataclass(slots=True, kw_only=True)
class OffsetFetchResponsePartitions:
    """Part of OffsetFetchResponse."""

    partition_index: int = wire(INT32, since=8)
    committed_offset: int = wire(INT64, since=8)
    committed_leader_epoch: int = wire(INT32, since=8, default=-1)
    metadata: str | None = wire(STRING, since=8, nullable_since=8)
    error_code: int = wire(INT16, since=8)


@dataclass(slots=True, kw_only=True)
class OffsetFetchResponseTopics:
    """Part of OffsetFetchResponse."""

    name: str = wire(STRING, since=8, until=9)
    topic_id: bytes = wire(UUID, since=10)
    partitions: Sequence[OffsetFetchResponsePartitions] = wire(
        array(OffsetFetchResponsePartitions), since=8
    )


@dataclass(slots=True, kw_only=True)
class OffsetFetchResponseGroup:
    """Part of OffsetFetchResponse."""

    group_id: str = wire(STRING, since=8)
    topics: Sequence[OffsetFetchResponseTopics] = wire(array(OffsetFetchResponseTopics), since=8)
    error_code: int = wire(INT16, since=8)


@dataclass(slots=True, kw_only=True)
class OffsetFetchResponse:
    """Source: Kafka OffsetFetchResponse.json, v1-10."""

    throttle_time_ms: int = wire(INT32, since=3)
    topics: Sequence[OffsetFetchResponseTopic] = wire(array(OffsetFetchResponseTopic), until=7)
    error_code: int = wire(INT16, since=2, until=7)
    groups: Sequence[OffsetFetchResponseGroup] = wire(array(OffsetFetchResponseGroup), since=8)
