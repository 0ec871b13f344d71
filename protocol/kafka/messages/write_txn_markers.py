"""WriteTxnMarkers, Kafka API 27, v1-2: what is on the wire, by Kafka's own names."""

from collections.abc import Sequence
from dataclasses import dataclass

from tailrace.protocol.kafka.primitives import BOOL, INT8, INT16, INT32, INT64, STRING
from tailrace.protocol.kafka.wire import array, wire


@dataclass(slots=True, kw_only=True)
class WritableTxnMarkerTopic:
    """Part of WriteTxnMarkersRequest."""

    name: str = wire(STRING)
    partition_indexes: Sequence[int] = wire(array(INT32))


@dataclass(slots=True, kw_only=True)
class WritableTxnMarker:
    """Part of WriteTxnMarkersRequest."""

    producer_id: int = wire(INT64)
    producer_epoch: int = wire(INT16)
    transaction_result: bool = wire(BOOL)
    topics: Sequence[WritableTxnMarkerTopic] = wire(array(WritableTxnMarkerTopic))
    coordinator_epoch: int = wire(INT32)
    transaction_version: int = wire(INT8, since=2)


@dataclass(slots=True, kw_only=True)
class WriteTxnMarkersRequest:
    """Source: Kafka WriteTxnMarkersRequest.json, v1-2."""

    markers: Sequence[WritableTxnMarker] = wire(array(WritableTxnMarker))


@dataclass(slots=True, kw_only=True)
class WritableTxnMarkerPartitionResult:
    """Part of WriteTxnMarkersResponse."""

    partition_index: int = wire(INT32)
    error_code: int = wire(INT16)


@dataclass(slots=True, kw_only=True)
class WritableTxnMarkerTopicResult:
    """Part of WriteTxnMarkersResponse."""

    name: str = wire(STRING)
    partitions: Sequence[WritableTxnMarkerPartitionResult] = wire(
        array(WritableTxnMarkerPartitionResult)
    )


@dataclass(slots=True, kw_only=True)
class WritableTxnMarkerResult:
    """Part of WriteTxnMarkersResponse."""

    producer_id: int = wire(INT64)
    topics: Sequence[WritableTxnMarkerTopicResult] = wire(array(WritableTxnMarkerTopicResult))


@dataclass(slots=True, kw_only=True)
class WriteTxnMarkersResponse:
    """Source: Kafka WriteTxnMarkersResponse.json, v1-2."""

    markers: Sequence[WritableTxnMarkerResult] = wire(array(WritableTxnMarkerResult))
