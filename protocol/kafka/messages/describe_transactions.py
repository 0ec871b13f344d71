"""DescribeTransactions, Kafka API 65, v0: what is on the wire, by Kafka's own names."""

from collections.abc import Sequence
from dataclasses import dataclass

from tailrace.protocol.kafka.primitives import INT16, INT32, INT64, STRING
from tailrace.protocol.kafka.wire import array, wire


@dataclass(slots=True, kw_only=True)
class DescribeTransactionsRequest:
    """Source: Kafka DescribeTransactionsRequest.json, v0."""

    transactional_ids: Sequence[str] = wire(array(STRING))


@dataclass(slots=True, kw_only=True)
class TopicData:
    """Part of DescribeTransactionsResponse."""

    topic: str = wire(STRING)
    partitions: Sequence[int] = wire(array(INT32))


@dataclass(slots=True, kw_only=True)
class TransactionState:
    """Part of DescribeTransactionsResponse."""

    error_code: int = wire(INT16)
    transactional_id: str = wire(STRING)
    transaction_state: str = wire(STRING)
    transaction_timeout_ms: int = wire(INT32)
    transaction_start_time_ms: int = wire(INT64)
    producer_id: int = wire(INT64)
    producer_epoch: int = wire(INT16)
    topics: Sequence[TopicData] = wire(array(TopicData))


@dataclass(slots=True, kw_only=True)
class DescribeTransactionsResponse:
    """Source: Kafka DescribeTransactionsResponse.json, v0."""

    throttle_time_ms: int = wire(INT32)
    transaction_states: Sequence[TransactionState] = wire(array(TransactionState))
