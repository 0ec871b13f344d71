"""AddOffsetsToTxn, Kafka API 25, v0-4: what is on the wire, by Kafka's own names."""

from dataclasses import dataclass

from tailrace.protocol.kafka.primitives import INT16, INT32, INT64, STRING
from tailrace.protocol.kafka.wire import wire


@dataclass(slots=True, kw_only=True)
class AddOffsetsToTxnRequest:
    """Source: Kafka AddOffsetsToTxnRequest.json, v0-4."""

    transactional_id: str = wire(STRING)
    producer_id: int = wire(INT64)
    producer_epoch: int = wire(INT16)
    group_id: str = wire(STRING)


@dataclass(slots=True, kw_only=True)
class AddOffsetsToTxnResponse:
    """Source: Kafka AddOffsetsToTxnResponse.json, v0-4."""

    throttle_time_ms: int = wire(INT32)
    error_code: int = wire(INT16)
