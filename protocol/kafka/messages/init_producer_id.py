"""InitProducerId, Kafka API 22, v0-5: what is on the wire, by Kafka's own names."""

from dataclasses import dataclass

from tailrace.protocol.kafka.primitives import INT16, INT32, INT64, STRING
from tailrace.protocol.kafka.wire import wire


@dataclass(slots=True, kw_only=True)
class InitProducerIdRequest:
    """Source: Kafka InitProducerIdRequest.json, v0-5."""

    transactional_id: str | None = wire(STRING, nullable_since=0)
    transaction_timeout_ms: int = wire(INT32)
    producer_id: int = wire(INT64, since=3, default=-1)
    producer_epoch: int = wire(INT16, since=3, default=-1)


@dataclass(slots=True, kw_only=True)
class InitProducerIdResponse:
    """Source: Kafka InitProducerIdResponse.json, v0-5."""

    throttle_time_ms: int = wire(INT32)
    error_code: int = wire(INT16)
    producer_id: int = wire(INT64, default=-1)
    producer_epoch: int = wire(INT16)
