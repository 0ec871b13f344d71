"""Produce, Kafka API 0, v3-13: what is on the wire, by Kafka's own names."""

from collections.abc import Sequence
from dataclasses import dataclass

from tailrace.protocol.ids import Buffer
from tailrace.protocol.kafka.primitives import INT16, INT32, INT64, RECORDS, STRING, UUID
from tailrace.protocol.kafka.wire import array, hot_message, wire


@hot_message
class PartitionProduceData:
    """Part of ProduceRequest."""

    index: int = wire(INT32)
    records: Buffer | None = wire(RECORDS, nullable_since=0)


@hot_message
class TopicProduceData:
    """Part of ProduceRequest."""

    name: str = wire(STRING, until=12)
    topic_id: bytes = wire(UUID, since=13)
    partition_data: Sequence[PartitionProduceData] = wire(array(PartitionProduceData))


@hot_message
class ProduceRequest:
    """Source: Kafka ProduceRequest.json, v3-13."""

    transactional_id: str | None = wire(STRING, since=3, nullable_since=3, default=None)
    acks: int = wire(INT16)
    timeout_ms: int = wire(INT32)
    topic_data: Sequence[TopicProduceData] = wire(array(TopicProduceData))


@hot_message
class BatchIndexAndErrorMessage:
    """Part of ProduceResponse."""

    batch_index: int = wire(INT32, since=8)
    batch_index_error_message: str | None = wire(STRING, since=8, nullable_since=8, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderIdAndEpoch:
    """Part of ProduceResponse."""

    leader_id: int = wire(INT32, since=10, default=-1)
    leader_epoch: int = wire(INT32, since=10, default=-1)


@hot_message
class PartitionProduceResponse:
    """Part of ProduceResponse."""

    index: int = wire(INT32)
    error_code: int = wire(INT16)
    base_offset: int = wire(INT64)
    log_append_time_ms: int = wire(INT64, since=2, default=-1)
    log_start_offset: int = wire(INT64, since=5, default=-1)
    record_errors: Sequence[BatchIndexAndErrorMessage] = wire(
        array(BatchIndexAndErrorMessage), since=8
    )
    error_message: str | None = wire(STRING, since=8, nullable_since=8, default=None)
    current_leader: LeaderIdAndEpoch = wire(LeaderIdAndEpoch, since=10, tag=0)


@hot_message
class TopicProduceResponse:
    """Part of ProduceResponse."""

    name: str = wire(STRING, until=12)
    topic_id: bytes = wire(UUID, since=13)
    partition_responses: Sequence[PartitionProduceResponse] = wire(array(PartitionProduceResponse))


@hot_message
class NodeEndpoint:
    """Part of ProduceResponse."""

    node_id: int = wire(INT32, since=10)
    host: str = wire(STRING, since=10)
    port: int = wire(INT32, since=10)
    rack: str | None = wire(STRING, since=10, nullable_since=10, default=None)


@hot_message
class ProduceResponse:
    """Source: Kafka ProduceResponse.json, v3-13."""

    responses: Sequence[TopicProduceResponse] = wire(array(TopicProduceResponse))
    throttle_time_ms: int = wire(INT32, since=1)
    node_endpoints: Sequence[NodeEndpoint] = wire(array(NodeEndpoint), since=10, tag=0)
