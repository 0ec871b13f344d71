"""DescribeGroups, Kafka API 15, v0-6: what is on the wire, by Kafka's own names."""

from collections.abc import Sequence
from dataclasses import dataclass

from tailrace.protocol.kafka.primitives import BOOL, BYTES, INT16, INT32, STRING
from tailrace.protocol.kafka.wire import array, wire


@dataclass(slots=True, kw_only=True)
class DescribeGroupsRequest:
    """Source: Kafka DescribeGroupsRequest.json, v0-6."""

    groups: Sequence[str] = wire(array(STRING))
    include_authorized_operations: bool = wire(BOOL, since=3)


@dataclass(slots=True, kw_only=True)
class DescribedGroupMember:
    """Part of DescribeGroupsResponse."""

    member_id: str = wire(STRING)
    group_instance_id: str | None = wire(STRING, since=4, nullable_since=4, default=None)
    client_id: str = wire(STRING)
    client_host: str = wire(STRING)
    member_metadata: bytes = wire(BYTES)
    member_assignment: bytes = wire(BYTES)


@dataclass(slots=True, kw_only=True)
class DescribedGroup:
    """Part of DescribeGroupsResponse."""

    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, since=6, nullable_since=6, default=None)
    group_id: str = wire(STRING)
    group_state: str = wire(STRING)
    protocol_type: str = wire(STRING)
    protocol_data: str = wire(STRING)
    members: Sequence[DescribedGroupMember] = wire(array(DescribedGroupMember))
    authorized_operations: int = wire(INT32, since=3, default=-2147483648)


@dataclass(slots=True, kw_only=True)
class DescribeGroupsResponse:
    """Source: Kafka DescribeGroupsResponse.json, v0-6."""

    throttle_time_ms: int = wire(INT32, since=1)
    groups: Sequence[DescribedGroup] = wire(array(DescribedGroup))
