"""ListTransactions, Kafka API 66, v0-2: what is on the wire, by Kafka's own names."""

from collections.abc import Sequence
from dataclasses import dataclass

from tailrace.protocol.kafka.primitives import INT16, INT32, INT64, STRING
from tailrace.protocol.kafka.wire import array, wire


@dataclass(slots=True, kw_only=True)
class ListTransactionsRequest:
    """Source: Kafka ListTransactionsRequest.json, v0-2."""

    state_filters: Sequence[str] = wire(array(STRING))
    producer_id_filters: Sequence[int] = wire(array(INT64))
    duration_filter: int = wire(INT64, since=1, default=-1)
    transactional_id_pattern: str | None = wire(STRING, since=2, nullable_since=2, default=None)


@dataclass(slots=True, kw_only=True)
class TransactionState:
    """Part of ListTransactionsResponse."""

    transactional_id: str = wire(STRING)
    producer_id: int = wire(INT64)
    transaction_state: str = wire(STRING)


@dataclass(slots=True, kw_only=True)
class ListTransactionsResponse:
    """Source: Kafka ListTransactionsResponse.json, v0-2."""

    throttle_time_ms: int = wire(INT32)
    error_code: int = wire(INT16)
    unknown_state_filters: Sequence[str] = wire(array(STRING))
    transaction_states: Sequence[TransactionState] = wire(array(TransactionState))
