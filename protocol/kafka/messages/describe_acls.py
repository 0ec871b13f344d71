"""DescribeAcls, Kafka API 29, v1-3: what is on the wire, by Kafka's own names."""

from collections.abc import Sequence
from dataclasses import dataclass

from tailrace.protocol.kafka.primitives import INT8, INT16, INT32, STRING
from tailrace.protocol.kafka.wire import array, wire


@dataclass(slots=True, kw_only=True)
class DescribeAclsRequest:
    """Source: Kafka DescribeAclsRequest.json, v1-3."""

    resource_type_filter: int = wire(INT8)
    resource_name_filter: str | None = wire(STRING, nullable_since=0)
    pattern_type_filter: int = wire(INT8, default=3)
    principal_filter: str | None = wire(STRING, nullable_since=0)
    host_filter: str | None = wire(STRING, nullable_since=0)
    operation: int = wire(INT8)
    permission_type: int = wire(INT8)


@dataclass(slots=True, kw_only=True)
class AclDescription:
    """Part of DescribeAclsResponse."""

    principal: str = wire(STRING)
    host: str = wire(STRING)
    operation: int = wire(INT8)
    permission_type: int = wire(INT8)


@dataclass(slots=True, kw_only=True)
class DescribeAclsResource:
    """Part of DescribeAclsResponse."""

    resource_type: int = wire(INT8)
    resource_name: str = wire(STRING)
    pattern_type: int = wire(INT8, default=3)
    acls: Sequence[AclDescription] = wire(array(AclDescription))


@dataclass(slots=True, kw_only=True)
class DescribeAclsResponse:
    """Source: Kafka DescribeAclsResponse.json, v1-3."""

    throttle_time_ms: int = wire(INT32)
    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, nullable_since=0)
    resources: Sequence[DescribeAclsResource] = wire(array(DescribeAclsResource))
