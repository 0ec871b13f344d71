"""AlterConfigs, Kafka API 33, v0-2: what is on the wire, by Kafka's own names."""

from collections.abc import Sequence
from dataclasses import dataclass

from tailrace.protocol.kafka.primitives import BOOL, INT8, INT16, INT32, STRING
from tailrace.protocol.kafka.wire import array, wire


@dataclass(slots=True, kw_only=True)
class AlterableConfig:
    """Part of AlterConfigsRequest."""

    name: str = wire(STRING)
    value: str | None = wire(STRING, nullable_since=0)


@dataclass(slots=True, kw_only=True)
class AlterConfigsResource:
    """Part of AlterConfigsRequest."""

    resource_type: int = wire(INT8)
    resource_name: str = wire(STRING)
    configs: Sequence[AlterableConfig] = wire(array(AlterableConfig))


@dataclass(slots=True, kw_only=True)
class AlterConfigsRequest:
    """Source: Kafka AlterConfigsRequest.json, v0-2."""

    resources: Sequence[AlterConfigsResource] = wire(array(AlterConfigsResource))
    validate_only: bool = wire(BOOL)


@dataclass(slots=True, kw_only=True)
class AlterConfigsResourceResponse:
    """Part of AlterConfigsResponse."""

    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, nullable_since=0)
    resource_type: int = wire(INT8)
    resource_name: str = wire(STRING)


@dataclass(slots=True, kw_only=True)
class AlterConfigsResponse:
    """Source: Kafka AlterConfigsResponse.json, v0-2."""

    throttle_time_ms: int = wire(INT32)
    responses: Sequence[AlterConfigsResourceResponse] = wire(array(AlterConfigsResourceResponse))
