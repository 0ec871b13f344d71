"""ExpireDelegationToken, Kafka API 40, v1-2: what is on the wire, by Kafka's own names."""

from dataclasses import dataclass

from tailrace.protocol.kafka.primitives import BYTES, INT16, INT32, INT64
from tailrace.protocol.kafka.wire import wire


@dataclass(slots=True, kw_only=True)
class ExpireDelegationTokenRequest:
    """Source: Kafka ExpireDelegationTokenRequest.json, v1-2."""

    hmac: bytes = wire(BYTES)
    expiry_time_period_ms: int = wire(INT64)


@dataclass(slots=True, kw_only=True)
class ExpireDelegationTokenResponse:
    """Source: Kafka ExpireDelegationTokenResponse.json, v1-2."""

    error_code: int = wire(INT16)
    expiry_timestamp_ms: int = wire(INT64)
    throttle_time_ms: int = wire(INT32)
