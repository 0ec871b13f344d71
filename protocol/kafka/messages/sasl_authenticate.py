"""SaslAuthenticate, Kafka API 36, v0-2: what is on the wire, by Kafka's own names."""

from dataclasses import dataclass

from tailrace.protocol.kafka.primitives import BYTES, INT16, INT64, STRING
from tailrace.protocol.kafka.wire import wire


@dataclass(slots=True, kw_only=True)
class SaslAuthenticateRequest:
    """Source: Kafka SaslAuthenticateRequest.json, v0-2."""

    auth_bytes: bytes = wire(BYTES)


@dataclass(slots=True, kw_only=True)
class SaslAuthenticateResponse:
    """Source: Kafka SaslAuthenticateResponse.json, v0-2."""

    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, nullable_since=0)
    auth_bytes: bytes = wire(BYTES)
    session_lifetime_ms: int = wire(INT64, since=1)
