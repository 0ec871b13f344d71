"""DescribeConfigs, Kafka API 32, v1-4: what is on the wire, by Kafka's own names."""

from collections.abc import Sequence
from dataclasses import dataclass

from tailrace.protocol.kafka.primitives import BOOL, INT8, INT16, INT32, STRING
from tailrace.protocol.kafka.wire import array, wire


@dataclass(slots=True, kw_only=True)
class DescribeConfigsResource:
    """Part of DescribeConfigsRequest."""

    resource_type: int = wire(INT8)
    resource_name: str = wire(STRING)
    configuration_keys: Sequence[str] | None = wire(array(STRING), nullable_since=0)


@dataclass(slots=True, kw_only=True)
class DescribeConfigsRequest:
    """Source: Kafka DescribeConfigsRequest.json, v1-4."""

    resources: Sequence[DescribeConfigsResource] = wire(array(DescribeConfigsResource))
    include_synonyms: bool = wire(BOOL, since=1)
    include_documentation: bool = wire(BOOL, since=3)


@dataclass(slots=True, kw_only=True)
class DescribeConfigsSynonym:
    """Part of DescribeConfigsResponse."""

    name: str = wire(STRING, since=1)
    value: str | None = wire(STRING, since=1, nullable_since=0)
    source: int = wire(INT8, since=1)


@dataclass(slots=True, kw_only=True)
class DescribeConfigsResourceResult:
    """Part of DescribeConfigsResponse."""

    name: str = wire(STRING)
    value: str | None = wire(STRING, nullable_since=0)
    read_only: bool = wire(BOOL)
    config_source: int = wire(INT8, since=1, default=-1)
    is_sensitive: bool = wire(BOOL)
    synonyms: Sequence[DescribeConfigsSynonym] = wire(array(DescribeConfigsSynonym), since=1)
    config_type: int = wire(INT8, since=3)
    documentation: str | None = wire(STRING, since=3, nullable_since=0)


@dataclass(slots=True, kw_only=True)
class DescribeConfigsResult:
    """Part of DescribeConfigsResponse."""

    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, nullable_since=0)
    resource_type: int = wire(INT8)
    resource_name: str = wire(STRING)
    configs: Sequence[DescribeConfigsResourceResult] = wire(array(DescribeConfigsResourceResult))


@dataclass(slots=True, kw_only=True)
class DescribeConfigsResponse:
    """Source: Kafka DescribeConfigsResponse.json, v1-4."""

    throttle_time_ms: int = wire(INT32)
    results: Sequence[DescribeConfigsResult] = wire(array(DescribeConfigsResult))
