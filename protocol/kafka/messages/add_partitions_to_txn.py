"""AddPartitionsToTxn, Kafka API 24, v0-5: what is on the wire, by Kafka's own names."""

from collections.abc import Sequence
from dataclasses import dataclass

from tailrace.protocol.kafka.primitives import BOOL, INT16, INT32, INT64, STRING
from tailrace.protocol.kafka.wire import array, wire


@dataclass(slots=True, kw_only=True)
class AddPartitionsToTxnTopic:
    """Part of AddPartitionsToTxnRequest."""

    name: str = wire(STRING)
    partitions: Sequence[int] = wire(array(INT32))


@dataclass(slots=True, kw_only=True)
class AddPartitionsToTxnTransaction:
    """Part of AddPartitionsToTxnRequest."""

    transactional_id: str = wire(STRING, since=4)
    producer_id: int = wire(INT64, since=4)
    producer_epoch: int = wire(INT16, since=4)
    verify_only: bool = wire(BOOL, since=4)
    topics: Sequence[AddPartitionsToTxnTopic] = wire(array(AddPartitionsToTxnTopic), since=4)


@dataclass(slots=True, kw_only=True)
class AddPartitionsToTxnRequest:
    """Source: Kafka AddPartitionsToTxnRequest.json, v0-5."""

    transactions: Sequence[AddPartitionsToTxnTransaction] = wire(
        array(AddPartitionsToTxnTransaction), since=4
    )
    v3_and_below_transactional_id: str = wire(STRING, until=3)
    v3_and_below_producer_id: int = wire(INT64, until=3)
    v3_and_below_producer_epoch: int = wire(INT16, until=3)
    v3_and_below_topics: Sequence[AddPartitionsToTxnTopic] = wire(
        array(AddPartitionsToTxnTopic), until=3
    )


@dataclass(slots=True, kw_only=True)
class AddPartitionsToTxnPartitionResult:
    """Part of AddPartitionsToTxnResponse."""

    partition_index: int = wire(INT32)
    partition_error_code: int = wire(INT16)


@dataclass(slots=True, kw_only=True)
class AddPartitionsToTxnTopicResult:
    """Part of AddPartitionsToTxnResponse."""

    name: str = wire(STRING)
    results_by_partition: Sequence[AddPartitionsToTxnPartitionResult] = wire(
        array(AddPartitionsToTxnPartitionResult)
    )


@dataclass(slots=True, kw_only=True)
class AddPartitionsToTxnResult:
    """Part of AddPartitionsToTxnResponse."""

    transactional_id: str = wire(STRING, since=4)
    topic_results: Sequence[AddPartitionsToTxnTopicResult] = wire(
        array(AddPartitionsToTxnTopicResult), since=4
    )


@dataclass(slots=True, kw_only=True)
class AddPartitionsToTxnResponse:
    """Source: Kafka AddPartitionsToTxnResponse.json, v0-5."""

    throttle_time_ms: int = wire(INT32)
    error_code: int = wire(INT16, since=4)
    results_by_transaction: Sequence[AddPartitionsToTxnResult] = wire(
        array(AddPartitionsToTxnResult), since=4
    )
    results_by_topic_v3_and_below: Sequence[AddPartitionsToTxnTopicResult] = wire(
        array(AddPartitionsToTxnTopicResult), until=3
    )
