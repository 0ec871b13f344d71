"""ListGroups, Kafka API 16, v0-5: what is on the wire, by Kafka's own names."""

from collections.abc import Sequence
from dataclasses import dataclass

from tailrace.protocol.kafka.primitives import INT16, INT32, STRING
from tailrace.protocol.kafka.wire import array, wire


@dataclass(slots=True, kw_only=True)
class ListGroupsRequest:
    """Source: Kafka ListGroupsRequest.json, v0-5."""

    states_filter: Sequence[str] = wire(array(STRING), since=4)
    types_filter: Sequence[str] = wire(array(STRING), since=5)


@dataclass(slots=True, kw_only=True)
class ListedGroup:
    """Part of ListGroupsResponse."""

    group_id: str = wire(STRING)
    protocol_type: str = wire(STRING)
    group_state: str = wire(STRING, since=4)
    group_type: str = wire(STRING, since=5)


@dataclass(slots=True, kw_only=True)
class ListGroupsResponse:
    """Source: Kafka ListGroupsResponse.json, v0-5."""

    throttle_time_ms: int = wire(INT32, since=1)
    error_code: int = wire(INT16)
    groups: Sequence[ListedGroup] = wire(array(ListedGroup))
