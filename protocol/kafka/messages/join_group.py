"""JoinGroup, Kafka API 11, v0-9: what is on the wire, by Kafka's own names."""

from collections.abc import Sequence
from dataclasses import dataclass

from tailrace.protocol.kafka.primitives import BOOL, BYTES, INT16, INT32, STRING
from tailrace.protocol.kafka.wire import array, wire


@dataclass(slots=True, kw_only=True)
class JoinGroupRequestProtocol:
    """Part of JoinGroupRequest."""

    name: str = wire(STRING)
    metadata: bytes = wire(BYTES)


@dataclass(slots=True, kw_only=True)
class JoinGroupRequest:
    """Source: Kafka JoinGroupRequest.json, v0-9."""

    group_id: str = wire(STRING)
    session_timeout_ms: int = wire(INT32)
    rebalance_timeout_ms: int = wire(INT32, since=1, default=-1)
    member_id: str = wire(STRING)
    group_instance_id: str | None = wire(STRING, since=5, nullable_since=5, default=None)
    protocol_type: str = wire(STRING)
    protocols: Sequence[JoinGroupRequestProtocol] = wire(array(JoinGroupRequestProtocol))
    reason: str | None = wire(STRING, since=8, nullable_since=8, default=None)


@dataclass(slots=True, kw_only=True)
class JoinGroupResponseMember:
    """Part of JoinGroupResponse."""

    member_id: str = wire(STRING)
    group_instance_id: str | None = wire(STRING, since=5, nullable_since=5, default=None)
    metadata: bytes = wire(BYTES)


@dataclass(slots=True, kw_only=True)
class JoinGroupResponse:
    """Source: Kafka JoinGroupResponse.json, v0-9."""

    throttle_time_ms: int = wire(INT32, since=2)
    error_code: int = wire(INT16)
    generation_id: int = wire(INT32, default=-1)
    protocol_type: str | None = wire(STRING, since=7, nullable_since=7, default=None)
    protocol_name: str | None = wire(STRING, nullable_since=7)
    leader: str = wire(STRING)
    skip_assignment: bool = wire(BOOL, since=9)
    member_id: str = wire(STRING)
    members: Sequence[JoinGroupResponseMember] = wire(array(JoinGroupResponseMember))
