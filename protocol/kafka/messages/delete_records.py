"""DeleteRecords, Kafka API 21, v0-2: what is on the wire, by Kafka's own names."""

from collections.abc import Sequence
from dataclasses import dataclass

from tailrace.protocol.kafka.primitives import INT16, INT32, INT64, STRING
from tailrace.protocol.kafka.wire import array, wire


@dataclass(slots=True, kw_only=True)
class DeleteRecordsPartition:
    """Part of DeleteRecordsRequest."""

    partition_index: int = wire(INT32)
    offset: int = wire(INT64)


@dataclass(slots=True, kw_only=True)
class DeleteRecordsTopic:
    """Part of DeleteRecordsRequest."""

    name: str = wire(STRING)
    partitions: Sequence[DeleteRecordsPartition] = wire(array(DeleteRecordsPartition))


@dataclass(slots=True, kw_only=True)
class DeleteRecordsRequest:
    """Source: Kafka DeleteRecordsRequest.json, v0-2."""

    topics: Sequence[DeleteRecordsTopic] = wire(array(DeleteRecordsTopic))
    timeout_ms: int = wire(INT32)


@dataclass(slots=True, kw_only=True)
class DeleteRecordsPartitionResult:
    """Part of DeleteRecordsResponse."""

    partition_index: int = wire(INT32)
    low_watermark: int = wire(INT64)
    error_code: int = wire(INT16)


@dataclass(slots=True, kw_only=True)
class DeleteRecordsTopicResult:
    """Part of DeleteRecordsResponse."""

    name: str = wire(STRING)
    partitions: Sequence[DeleteRecordsPartitionResult] = wire(array(DeleteRecordsPartitionResult))


@dataclass(slots=True, kw_only=True)
class DeleteRecordsResponse:
    """Source: Kafka DeleteRecordsResponse.json, v0-2."""

    throttle_time_ms: int = wire(INT32)
    topics: Sequence[DeleteRecordsTopicResult] = wire(array(DeleteRecordsTopicResult))
