"""CreateAcls, Kafka API 30, v1-3: what is on the wire, by Kafka's own names."""

from collections.abc import Sequence
from dataclasses import dataclass

from tailrace.protocol.kafka.primitives import INT8, INT16, INT32, STRING
from tailrace.protocol.kafka.wire import array, wire


@dataclass(slots=True, kw_only=True)
class AclCreation:
    """Part of CreateAclsRequest."""

    resource_type: int = wire(INT8)
    resource_name: str = wire(STRING)
    resource_pattern_type: int = wire(INT8, default=3)
    principal: str = wire(STRING)
    host: str = wire(STRING)
    operation: int = wire(INT8)
    permission_type: int = wire(INT8)


@dataclass(slots=True, kw_only=True)
class CreateAclsRequest:
    """Source: Kafka CreateAclsRequest.json, v1-3."""

    creations: Sequence[AclCreation] = wire(array(AclCreation))


@dataclass(slots=True, kw_only=True)
class AclCreationResult:
    """Part of CreateAclsResponse."""

    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, nullable_since=0)


@dataclass(slots=True, kw_only=True)
class CreateAclsResponse:
    """Source: Kafka CreateAclsResponse.json, v1-3."""

    throttle_time_ms: int = wire(INT32)
    results: Sequence[AclCreationResult] = wire(array(AclCreationResult))
