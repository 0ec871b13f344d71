"""Heartbeat, Kafka API 12, v0-4: what is on the wire, by Kafka's own names."""

from dataclasses import dataclass

from tailrace.protocol.kafka.primitives import INT16, INT32, STRING
from tailrace.protocol.kafka.wire import wire


@dataclass(slots=True, kw_only=True)
class HeartbeatRequest:
    """Source: Kafka HeartbeatRequest.json, v0-4."""

    group_id: str = wire(STRING)
    generation_id: int = wire(INT32)
    member_id: str = wire(STRING)
    group_instance_id: str | None = wire(STRING, since=3, nullable_since=3, default=None)


@dataclass(slots=True, kw_only=True)
class HeartbeatResponse:
    """Source: Kafka HeartbeatResponse.json, v0-4."""

    throttle_time_ms: int = wire(INT32, since=1)
    error_code: int = wire(INT16)
