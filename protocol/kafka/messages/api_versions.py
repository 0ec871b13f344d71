"""ApiVersions, Kafka API 18, v0-4: what is on the wire, by Kafka's own names."""

from collections.abc import Sequence
from dataclasses import dataclass

from tailrace.protocol.kafka.primitives import BOOL, INT16, INT32, INT64, STRING
from tailrace.protocol.kafka.wire import array, wire


@dataclass(slots=True, kw_only=True)
class ApiVersionsRequest:
    """Source: Kafka ApiVersionsRequest.json, v0-4."""

    client_software_name: str = wire(STRING, since=3)
    client_software_version: str = wire(STRING, since=3)


@dataclass(slots=True, kw_only=True)
class ApiVersion:
    """Part of ApiVersionsResponse."""

    api_key: int = wire(INT16)
    min_version: int = wire(INT16)
    max_version: int = wire(INT16)


@dataclass(slots=True, kw_only=True)
class SupportedFeatureKey:
    """Part of ApiVersionsResponse."""

    name: str = wire(STRING, since=3)
    min_version: int = wire(INT16, since=3)
    max_version: int = wire(INT16, since=3)


@dataclass(slots=True, kw_only=True)
class FinalizedFeatureKey:
    """Part of ApiVersionsResponse."""

    name: str = wire(STRING, since=3)
    max_version_level: int = wire(INT16, since=3)
    min_version_level: int = wire(INT16, since=3)


@dataclass(slots=True, kw_only=True)
class ApiVersionsResponse:
    """Source: Kafka ApiVersionsResponse.json, v0-4."""

    error_code: int = wire(INT16)
    api_keys: Sequence[ApiVersion] = wire(array(ApiVersion))
    throttle_time_ms: int = wire(INT32, since=1)
    supported_features: Sequence[SupportedFeatureKey] = wire(
        array(SupportedFeatureKey), since=3, tag=0
    )
    finalized_features_epoch: int = wire(INT64, since=3, tag=1, default=-1)
    finalized_features: Sequence[FinalizedFeatureKey] = wire(
        array(FinalizedFeatureKey), since=3, tag=2
    )
    zk_migration_ready: bool = wire(BOOL, since=3, tag=3)
