"""RenewDelegationToken, Kafka API 39, v1-2: what is on the wire, by Kafka's own names."""

from dataclasses import dataclass

from tailrace.protocol.kafka.primitives import BYTES, INT16, INT32, INT64
from tailrace.protocol.kafka.wire import wire


@dataclass(slots=True, kw_only=True)
class RenewDelegationTokenRequest:
    """Source: Kafka RenewDelegationTokenRequest.json, v1-2."""

    hmac: bytes = wire(BYTES)
    renew_period_ms: int = wire(INT64)


@dataclass(slots=True, kw_only=True)
class RenewDelegationTokenResponse:
    """Source: Kafka RenewDelegationTokenResponse.json, v1-2."""

    error_code: int = wire(INT16)
    expiry_timestamp_ms: int = wire(INT64)
    throttle_time_ms: int = wire(INT32)
