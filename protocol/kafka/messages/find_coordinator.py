"""FindCoordinator, Kafka API 10, v0-6: what is on the wire, by Kafka's own names."""

from collections.abc import Sequence
from dataclasses import dataclass

from tailrace.protocol.kafka.primitives import INT8, INT16, INT32, STRING
from tailrace.protocol.kafka.wire import array, wire


@dataclass(slots=True, kw_only=True)
class FindCoordinatorRequest:
    """Source: Kafka FindCoordinatorRequest.json, v0-6."""

    key: str = wire(STRING, until=3)
    key_type: int = wire(INT8, since=1)
    coordinator_keys: Sequence[str] = wire(array(STRING), since=4)


@dataclass(slots=True, kw_only=True)
class Coordinator:
    """Part of FindCoordinatorResponse."""

    key: str = wire(STRING, since=4)
    node_id: int = wire(INT32, since=4)
    host: str = wire(STRING, since=4)
    port: int = wire(INT32, since=4)
    error_code: int = wire(INT16, since=4)
    error_message: str | None = wire(STRING, since=4, nullable_since=4)


@dataclass(slots=True, kw_only=True)
class FindCoordinatorResponse:
    """Source: Kafka FindCoordinatorResponse.json, v0-6."""

    throttle_time_ms: int = wire(INT32, since=1)
    error_code: int = wire(INT16, until=3)
    error_message: str | None = wire(STRING, since=1, until=3, nullable_since=1)
    node_id: int = wire(INT32, until=3)
    host: str = wire(STRING, until=3)
    port: int = wire(INT32, until=3)
    coordinators: Sequence[Coordinator] = wire(array(Coordinator), since=4)
