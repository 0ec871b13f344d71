"""AlterClientQuotas, Kafka API 49, v0-1: what is on the wire, by Kafka's own names."""

from collections.abc import Sequence
from dataclasses import dataclass

from tailrace.protocol.kafka.primitives import BOOL, FLOAT64, INT16, INT32, STRING
from tailrace.protocol.kafka.wire import array, wire


@dataclass(slots=True, kw_only=True)
class EntityData:
    """Part of AlterClientQuotasRequest and its response."""

    entity_type: str = wire(STRING)
    entity_name: str | None = wire(STRING, nullable_since=0)


@dataclass(slots=True, kw_only=True)
class OpData:
    """Part of AlterClientQuotasRequest."""

    key: str = wire(STRING)
    value: float = wire(FLOAT64)
    remove: bool = wire(BOOL)


@dataclass(slots=True, kw_only=True)
class EntryData:
    """Part of AlterClientQuotasRequest."""

    entity: Sequence[EntityData] = wire(array(EntityData))
    ops: Sequence[OpData] = wire(array(OpData))


@dataclass(slots=True, kw_only=True)
class AlterClientQuotasRequest:
    """Source: Kafka AlterClientQuotasRequest.json, v0-1."""

    entries: Sequence[EntryData] = wire(array(EntryData))
    validate_only: bool = wire(BOOL)


@dataclass(slots=True, kw_only=True)
class ResponseEntryData:
    """Part of AlterClientQuotasResponse."""

    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, nullable_since=0)
    entity: Sequence[EntityData] = wire(array(EntityData))


@dataclass(slots=True, kw_only=True)
class AlterClientQuotasResponse:
    """Source: Kafka AlterClientQuotasResponse.json, v0-1."""

    throttle_time_ms: int = wire(INT32)
    entries: Sequence[ResponseEntryData] = wire(array(ResponseEntryData))
