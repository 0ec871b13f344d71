"""UpdateFeatures, Kafka API 57, v0-2: what is on the wire, by Kafka's own names."""

from collections.abc import Sequence
from dataclasses import dataclass

from tailrace.protocol.kafka.primitives import BOOL, INT8, INT16, INT32, STRING
from tailrace.protocol.kafka.wire import array, wire


@dataclass(slots=True, kw_only=True)
class FeatureUpdateKey:
    """Part of UpdateFeaturesRequest."""

    feature: str = wire(STRING)
    max_version_level: int = wire(INT16)
    allow_downgrade: bool = wire(BOOL, until=0)
    upgrade_type: int = wire(INT8, since=1, default=1)


@dataclass(slots=True, kw_only=True)
class UpdateFeaturesRequest:
    """Source: Kafka UpdateFeaturesRequest.json, v0-2."""

    timeout_ms: int = wire(INT32, default=60000)
    feature_updates: Sequence[FeatureUpdateKey] = wire(array(FeatureUpdateKey))
    validate_only: bool = wire(BOOL, since=1)


@dataclass(slots=True, kw_only=True)
class UpdatableFeatureResult:
    """Part of UpdateFeaturesResponse."""

    feature: str = wire(STRING)
    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, nullable_since=0)


@dataclass(slots=True, kw_only=True)
class UpdateFeaturesResponse:
    """Source: Kafka UpdateFeaturesResponse.json, v0-2."""

    throttle_time_ms: int = wire(INT32)
    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, nullable_since=0)
    results: Sequence[UpdatableFeatureResult] = wire(array(UpdatableFeatureResult), until=1)
