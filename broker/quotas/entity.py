"""Whom a quota is for and what it limits: names, combinations and values that may be. Pure.

Source: org.apache.kafka.controller.ClientQuotaControlManager, QuotaConfig.
"""

import math
from collections.abc import Iterable, Mapping
from ipaddress import ip_address
from typing import Final, NamedTuple, TypeAlias

from tailrace.broker.errors import KafkaError
from tailrace.protocol.errors import ErrorCode

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"
ENTITY_TYPES: Final = frozenset({USER, CLIENT_ID, IP})

PRODUCER_BYTE_RATE: Final = "producer_byte_rate"
CONSUMER_BYTE_RATE: Final = "consumer_byte_rate"
REQUEST_PERCENTAGE: Final = "request_percentage"
CONTROLLER_MUTATION_RATE: Final = "controller_mutation_rate"
CONNECTION_CREATION_RATE: Final = "connection_creation_rate"

QuotaEntity: TypeAlias = tuple[tuple[str, str | None], ...]
"""(type, name) pairs, sorted by type; the name None stands for everybody without an own quota."""


class _Value(NamedTuple):
    """What a quota's value may be: whole numbers up to `most`, or any if that is None."""

    kind: str
    most: int | None


_OF_CLIENTS: Final[Mapping[str, _Value]] = {
    PRODUCER_BYTE_RATE: _Value("LONG", (1 << 63) - 1),
    CONSUMER_BYTE_RATE: _Value("LONG", (1 << 63) - 1),
    REQUEST_PERCENTAGE: _Value("DOUBLE", None),
    CONTROLLER_MUTATION_RATE: _Value("DOUBLE", None),
}
_OF_ADDRESSES: Final[Mapping[str, _Value]] = {
    CONNECTION_CREATION_RATE: _Value("INT", (1 << 31) - 1),
}
_FRACTION_IGNORED: Final = 1e-6


def entity_of(parts: Iterable[tuple[str, str | None]]) -> QuotaEntity:
    """Return the entity that a request names; of a type named twice, as Kafka, the last counts."""
    return tuple(sorted(dict(parts).items()))


def check_entity(entity: QuotaEntity) -> None:
    """Refuse what no quota can be for. Errors: KafkaError INVALID_REQUEST."""
    if not entity:
        raise _invalid("Invalid empty client quota entity")
    for kind, name in entity:
        if kind not in ENTITY_TYPES:
            raise _invalid(f"Unhandled client quota entity type: {kind}")
        if name == "":
            raise _invalid(f"Empty {kind} not supported")
    names = dict(entity)
    if IP not in names:
        return
    if len(names) > 1:
        raise _invalid("Invalid quota entity combination, an ip entity stands alone")
    if names[IP] is not None and normal_address(str(names[IP])) is None:
        raise _invalid(f"{names[IP]} is not a valid IP address")


def check_value(entity: QuotaEntity, key: str, value: float) -> None:
    """Refuse a key that the entity does not have, or a value that the key cannot take.

    Errors: KafkaError INVALID_REQUEST.
    """
    keys = _OF_ADDRESSES if dict(entity).keys() == {IP} else _OF_CLIENTS
    allowed = keys.get(key)
    if allowed is None:
        raise _invalid(f"Invalid configuration key {key}")
    if not value > 0 or math.isinf(value):  # Kafka takes NaN and infinity, and then limits nothing
        raise _invalid(f"Quota {key} must be greater than 0, and finite")
    if allowed.most is None:
        return
    if value > allowed.most:
        raise _invalid(f"Proposed value for {key} is too large for {allowed.kind}")
    if value % 1.0 > _FRACTION_IGNORED:
        raise _invalid(f"{key} cannot be a fractional value")


def normal_address(text: str) -> str | None:
    """Return the one way to write an IP address, or None if it is none."""
    try:
        return ip_address(text).compressed
    except ValueError:
        return None


def _invalid(detail: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, detail)
