"""DeleteAcls, Kafka API 31, v1-3: what is on the wire, by Kafka's own names."""

from collections.abc import Sequence
from dataclasses import dataclass

from tailrace.protocol.kafka.primitives import INT8, INT16, INT32, STRING
from tailrace.protocol.kafka.wire import array, wire


@dataclass(slots=True, kw_only=True)
class DeleteAclsFilter:
    """Part of DeleteAclsRequest."""

    resource_type_filter: int = wire(INT8)
    resource_name_filter: str | None = wire(STRING, nullable_since=0)
    pattern_type_filter: int = wire(INT8, default=3)
    principal_filter: str | None = wire(STRING, nullable_since=0)
    host_filter: str | None = wire(STRING, nullable_since=0)
    operation: int = wire(INT8)
    permission_type: int = wire(INT8)


@dataclass(slots=True, kw_only=True)
class DeleteAclsRequest:
    """Source: Kafka DeleteAclsRequest.json, v1-3."""

    filters: Sequence[DeleteAclsFilter] = wire(array(DeleteAclsFilter))


@dataclass(slots=True, kw_only=True)
class DeleteAclsMatchingAcl:
    """Part of DeleteAclsResponse."""

    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, nullable_since=0)
    resource_type: int = wire(INT8)
    resource_name: str = wire(STRING)
    pattern_type: int = wire(INT8, default=3)
    principal: str = wire(STRING)
    host: str = wire(STRING)
    operation: int = wire(INT8)
    permission_type: int = wire(INT8)


@dataclass(slots=True, kw_only=True)
class DeleteAclsFilterResult:
    """Part of DeleteAclsResponse."""

    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, nullable_since=0)
    matching_acls: Sequence[DeleteAclsMatchingAcl] = wire(array(DeleteAclsMatchingAcl))


@dataclass(slots=True, kw_only=True)
class DeleteAclsResponse:
    """Source: Kafka DeleteAclsResponse.json, v1-3."""

    throttle_time_ms: int = wire(INT32)
    filter_results: Sequence[DeleteAclsFilterResult] = wire(array(DeleteAclsFilterResult))
