"""ListConfigResources, Kafka API 74, v0-1: what is on the wire, by Kafka's own names."""

from collections.abc import Sequence
from dataclasses import dataclass

from tailrace.protocol.kafka.primitives import INT8, INT16, INT32, STRING
from tailrace.protocol.kafka.wire import array, wire


@dataclass(slots=True, kw_only=True)
class ListConfigResourcesRequest:
    """Source: Kafka ListConfigResourcesRequest.json, v0-1."""

    resource_types: Sequence[int] = wire(array(INT8), since=1)


@dataclass(slots=True, kw_only=True)
class ConfigResource:
    """Part of ListConfigResourcesResponse."""

    resource_name: str = wire(STRING)
    resource_type: int = wire(INT8, since=1, default=16)


@dataclass(slots=True, kw_only=True)
class ListConfigResourcesResponse:
    """Source: Kafka ListConfigResourcesResponse.json, v0-1."""

    throttle_time_ms: int = wire(INT32)
    error_code: int = wire(INT16)
    config_resources: Sequence[ConfigResource] = wire(array(ConfigResource))
