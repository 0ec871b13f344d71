"""EndTxn, Kafka API 26, v0-5: what is on the wire, by Kafka's own names."""

from dataclasses import dataclass

from tailrace.protocol.kafka.primitives import BOOL, INT16, INT32, INT64, STRING
from tailrace.protocol.kafka.wire import wire


@dataclass(slots=True, kw_only=True)
class EndTxnRequest:
    """Source: Kafka EndTxnRequest.json, v0-5."""

    transactional_id: str = wire(STRING)
    producer_id: int = wire(INT64)
    producer_epoch: int = wire(INT16)
    committed: bool = wire(BOOL)


@dataclass(slots=True, kw_only=True)
class EndTxnResponse:
    """Source: Kafka EndTxnResponse.json, v0-5."""

    throttle_time_ms: int = wire(INT32)
    error_code: int = wire(INT16)
    producer_id: int = wire(INT64, since=5, default=-1)
    producer_epoch: int = wire(INT16, since=5, default=-1)
