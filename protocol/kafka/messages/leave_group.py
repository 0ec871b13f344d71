"""LeaveGroup, Kafka API 13, v0-5: what is on the wire, by Kafka's own names."""

from collections.abc import Sequence
from dataclasses import dataclass

from tailrace.protocol.kafka.primitives import INT16, INT32, STRING
from tailrace.protocol.kafka.wire import array, wire


@dataclass(slots=True, kw_only=True)
class MemberIdentity:
    """Part of LeaveGroupRequest."""

    member_id: str = wire(STRING, since=3)
    group_instance_id: str | None = wire(STRING, since=3, nullable_since=3, default=None)
    reason: str | None = wire(STRING, since=5, nullable_since=5, default=None)


@dataclass(slots=True, kw_only=True)
class LeaveGroupRequest:
    """Source: Kafka LeaveGroupRequest.json, v0-5."""

    group_id: str = wire(STRING)
    member_id: str = wire(STRING, until=2)
    members: Sequence[MemberIdentity] = wire(array(MemberIdentity), since=3)


@dataclass(slots=True, kw_only=True)
class MemberResponse:
    """Part of LeaveGroupResponse."""

    member_id: str = wire(STRING, since=3)
    group_instance_id: str | None = wire(STRING, since=3, nullable_since=3)
    error_code: int = wire(INT16, since=3)


@dataclass(slots=True, kw_only=True)
class LeaveGroupResponse:
    """Source: Kafka LeaveGroupResponse.json, v0-5."""

    throttle_time_ms: int = wire(INT32, since=1)
    error_code: int = wire(INT16)
    members: Sequence[MemberResponse] = wire(array(MemberResponse), since=3)
