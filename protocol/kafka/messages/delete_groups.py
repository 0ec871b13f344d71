"""DeleteGroups, Kafka API 42, v0-2: what is on the wire, by Kafka's own names."""

from collections.abc import Sequence
from dataclasses import dataclass

from tailrace.protocol.kafka.primitives import INT16, INT32, STRING
from tailrace.protocol.kafka.wire import array, wire


@dataclass(slots=True, kw_only=True)
class DeleteGroupsRequest:
    """Source: Kafka DeleteGroupsRequest.json, v0-2."""

    groups_names: Sequence[str] = wire(array(STRING))


@dataclass(slots=True, kw_only=True)
class DeletableGroupResult:
    """Part of DeleteGroupsResponse."""

    group_id: str = wire(STRING)
    error_code: int = wire(INT16)


@dataclass(slots=True, kw_only=True)
class DeleteGroupsResponse:
    """Source: Kafka DeleteGroupsResponse.json, v0-2."""

    throttle_time_ms: int = wire(INT32)
    results: Sequence[DeletableGroupResult] = wire(array(DeletableGroupResult))
