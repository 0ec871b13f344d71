"""SyncGroup, Kafka API 14, v0-5: what is on the wire, by Kafka's own names."""

from collections.abc import Sequence
from dataclasses import dataclass

from tailrace.protocol.kafka.primitives import BYTES, INT16, INT32, STRING
from tailrace.protocol.kafka.wire import array, wire


@dataclass(slots=True, kw_only=True)
class SyncGroupRequestAssignment:
    """Part of SyncGroupRequest."""

    member_id: str = wire(STRING)
    assignment: bytes = wire(BYTES)


@dataclass(slots=True, kw_only=True)
class SyncGroupRequest:
    """Source: Kafka SyncGroupRequest.json, v0-5."""

    group_id: str = wire(STRING)
    generation_id: int = wire(INT32)
    member_id: str = wire(STRING)
    group_instance_id: str | None = wire(STRING, since=3, nullable_since=3, default=None)
    protocol_type: str | None = wire(STRING, since=5, nullable_since=5, default=None)
    protocol_name: str | None = wire(STRING, since=5, nullable_since=5, default=None)
    assignments: Sequence[SyncGroupRequestAssignment] = wire(array(SyncGroupRequestAssignment))


@dataclass(slots=True, kw_only=True)
class SyncGroupResponse:
    """Source: Kafka SyncGroupResponse.json, v0-5."""

    throttle_time_ms: int = wire(INT32, since=1)
    error_code: int = wire(INT16)
    protocol_type: str | None = wire(STRING, since=5, nullable_since=5, default=None)
    protocol_name: str | None = wire(STRING, since=5, nullable_since=5, default=None)
    assignment: bytes = wire(BYTES)
