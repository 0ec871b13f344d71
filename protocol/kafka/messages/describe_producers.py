"""DescribeProducers, Kafka API 61, v0: what is on the wire, by Kafka's own names."""

from collections.abc import Sequence
from dataclasses import dataclass

from tailrace.protocol.kafka.primitives import INT16, INT32, INT64, STRING
from tailrace.protocol.kafka.wire import array, wire


@dataclass(slots=True, kw_only=True)
class TopicRequest:
    """Part of DescribeProducersRequest."""

    name: str = wire(STRING)
    partition_indexes: Sequence[int] = wire(array(INT32))


@dataclass(slots=True, kw_only=True)
class DescribeProducersRequest:
    """Source: Kafka DescribeProducersRequest.json, v0."""

    topics: Sequence[TopicRequest] = wire(array(TopicRequest))


@dataclass(slots=True, kw_only=True)
class ProducerState:
    """Part of DescribeProducersResponse."""

    producer_id: int = wire(INT64)
    producer_epoch: int = wire(INT32)
    last_sequence: int = wire(INT32, default=-1)
    last_timestamp: int = wire(INT64, default=-1)
    coordinator_epoch: int = wire(INT32)
    current_txn_start_offset: int = wire(INT64, default=-1)


@dataclass(slots=True, kw_only=True)
class PartitionResponse:
    """Part of DescribeProducersResponse."""

    partition_index: int = wire(INT32)
    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, nullable_since=0, default=None)
    active_producers: Sequence[ProducerState] = wire(array(ProducerState))


@dataclass(slots=True, kw_only=True)
class TopicResponse:
    """Part of DescribeProducersResponse."""

    name: str = wire(STRING)
    partitions: Sequence[PartitionResponse] = wire(array(PartitionResponse))


@dataclass(slots=True, kw_only=True)
class DescribeProducersResponse:
    """Source: Kafka DescribeProducersResponse.json, v0."""

    throttle_time_ms: int = wire(INT32)
    topics: Sequence[TopicResponse] = wire(array(TopicResponse))
