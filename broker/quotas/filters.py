"""Which entities DescribeClientQuotas asks for. Pure.

Source: org.apache.kafka.image.ClientQuotasImage.describe.
"""

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import NamedTuple

from tailrace.broker.errors import KafkaError
from tailrace.broker.quotas.entity import CLIENT_ID, ENTITY_TYPES, IP, USER, QuotaEntity
from tailrace.protocol.errors import ErrorCode


class Match(IntEnum):
    """How a component of a filter compares names; Kafka's numbers."""

    EXACT = 0
    DEFAULT = 1
    ANY = 2


class EntityFilter(NamedTuple):
    """What entities have to look like: each type that is named must be there and match."""

    names: Mapping[str, str | None]
    """The very name, or None for the default entity."""
    any_name: frozenset[str]
    """Types whose name does not matter."""
    strict: bool
    """Whether an entity may have no other types; a filter without components then finds nothing."""

    def matches(self, entity: QuotaEntity) -> bool:
        """Whether an entity is asked for."""
        has = dict(entity)
        asked = self.names.keys() | self.any_name
        if not asked <= has.keys() or (self.strict and len(has) != len(asked)):
            return False
        return all(has[kind] == name for kind, name in self.names.items())


def filter_of(components: Iterable[tuple[str, int, str | None]], *, strict: bool) -> EntityFilter:
    """Return the filter of (type, match type, name) components.

    Errors: KafkaError INVALID_REQUEST; UNSUPPORTED_VERSION for a type that does not exist.
    """
    names: dict[str, str | None] = {}
    any_name: set[str] = set()
    for kind, match, name in components:
        _check_type(kind, names.keys() | any_name)
        if match not in tuple(Match):
            raise _invalid(f"Unknown match type {match}")
        if (match == Match.EXACT) == (name is None):
            raise _invalid(f"Match type {Match(match).name} does not go with the name {name!r}")
        if match == Match.ANY:
            any_name.add(kind)
        else:
            names[kind] = name
    asked = names.keys() | any_name
    if IP in asked and asked & {USER, CLIENT_ID}:
        raise _invalid("An ip component cannot be combined with user or client-id")
    return EntityFilter(names, frozenset(any_name), strict)


def _check_type(kind: str, before: set[str]) -> None:
    if not kind:
        raise _invalid("Invalid empty entity type.")
    if kind in before:
        raise _invalid(f"Entity type {kind} cannot appear more than once in the filter.")
    if kind not in ENTITY_TYPES:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"Unsupported entity type {kind}")


def _invalid(detail: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, detail)
