"""DescribeClientQuotas, Kafka API 48, v0-1: what is on the wire, by Kafka's own names."""

from collections.abc import Sequence
from dataclasses import dataclass

from tailrace.protocol.kafka.primitives import BOOL, FLOAT64, INT8, INT16, INT32, STRING
from tailrace.protocol.kafka.wire import array, wire


@dataclass(slots=True, kw_only=True)
class ComponentData:
    """Part of DescribeClientQuotasRequest."""

    entity_type: str = wire(STRING)
    match_type: int = wire(INT8)
    match: str | None = wire(STRING, nullable_since=0)


@dataclass(slots=True, kw_only=True)
class DescribeClientQuotasRequest:
    """Source: Kafka DescribeClientQuotasRequest.json, v0-1."""

    components: Sequence[ComponentData] = wire(array(ComponentData))
    strict: bool = wire(BOOL)


@dataclass(slots=True, kw_only=True)
class EntityData:
    """Part of DescribeClientQuotasResponse."""

    entity_type: str = wire(STRING)
    entity_name: str | None = wire(STRING, nullable_since=0)


@dataclass(slots=True, kw_only=True)
class ValueData:
    """Part of DescribeClientQuotasResponse."""

    key: str = wire(STRING)
    value: float = wire(FLOAT64)


@dataclass(slots=True, kw_only=True)
class EntryData:
    """Part of DescribeClientQuotasResponse."""

    entity: Sequence[EntityData] = wire(array(EntityData))
    values: Sequence[ValueData] = wire(array(ValueData))


@dataclass(slots=True, kw_only=True)
class DescribeClientQuotasResponse:
    """Source: Kafka DescribeClientQuotasResponse.json, v0-1."""

    throttle_time_ms: int = wire(INT32)
    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, nullable_since=0)
    entries: Sequence[EntryData] | None = wire(array(EntryData), nullable_since=0)
