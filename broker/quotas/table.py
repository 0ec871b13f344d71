"""All quotas of a cluster, and which of them is a client's. Pure.

Of the quotas for a key that fit a client, the most specific one counts, in Kafka's order. Each key
is looked up on its own: a client may have its own produce quota and share its user's fetch quota.
Source: kafka.server.ClientQuotaManager, class DefaultQuotaCallback.
"""

from collections.abc import Iterable, Mapping, MutableMapping
from typing import NamedTuple, TypeAlias

from tailrace.broker.errors import KafkaError
from tailrace.broker.quotas.entity import (
    CLIENT_ID,
    CONNECTION_CREATION_RATE,
    IP,
    USER,
    QuotaEntity,
    check_entity,
    check_value,
    normal_address,
)
from tailrace.protocol.errors import ErrorCode

Quotas: TypeAlias = Mapping[QuotaEntity, Mapping[str, float]]
"""Values by entity and key; no entity without a value."""


class Change(NamedTuple):
    """One key to set, or to remove if the value is None."""

    key: str
    value: float | None


class Alteration(NamedTuple):
    """What is to change for one entity."""

    entity: QuotaEntity
    changes: tuple[Change, ...]


class Limit(NamedTuple):
    """A bound, and who shares it: all requests of the same `user` and `client_id`."""

    bound: float
    user: str
    """Empty where the user does not matter."""
    client_id: str
    """Empty where the client does not matter."""


def altered(
    quotas: Quotas, alterations: Iterable[Alteration]
) -> dict[QuotaEntity, dict[str, float]]:
    """Return the quotas after some changes. They are checked already; see `check_alteration`."""
    made = {entity: dict(values) for entity, values in quotas.items()}
    for entity, changes in alterations:
        values = made.setdefault(entity, {})
        for key, value in changes:
            if value is None:
                values.pop(key, None)
            else:
                values[key] = value
        if not values:
            del made[entity]
    return made


def check_alteration(
    alteration: Alteration, outcomes: MutableMapping[QuotaEntity, KafkaError | None]
) -> None:
    """Add to `outcomes` why an entity cannot be altered as asked, or None.

    An entity that is named twice is not altered at all. Kafka does the first and reports an error.
    """
    entity = alteration.entity
    if entity in outcomes:
        outcomes[entity] = _invalid(f"Ignoring duplicate entity {dict(entity)}")
    else:
        outcomes[entity] = _refusal(alteration)


def limit_of(quotas: Quotas, key: str, user: str, client_id: str) -> Limit | None:
    """Return the limit of a user's client, the most specific that there is.

    A client without an id is nobody's default client: only its user's quotas count.
    """
    for entity, shared_user, shared_client in _levels(user, client_id):
        bound = quotas.get(entity, {}).get(key)
        if bound is not None:
            return Limit(bound, shared_user, shared_client)
    return None


def connection_rates(quotas: Quotas) -> dict[str | None, int]:
    """Return the connections per second that addresses may make; None is for all others.

    Shape: at least 1.
    """
    rates: dict[str | None, int] = {}
    for entity, values in quotas.items():
        rate = values.get(CONNECTION_CREATION_RATE)
        if rate is not None:
            name = dict(entity)[IP]
            rates[name if name is None else normal_address(name)] = max(int(rate), 1)
    return rates


def _levels(user: str, client_id: str) -> list[tuple[QuotaEntity, str, str]]:
    """Return the entities that fit, most specific first, each with those who share it."""
    by_user: list[tuple[QuotaEntity, str, str]] = [
        (((USER, user),), user, ""),
        (((USER, None),), user, ""),
    ]
    if not client_id:
        return by_user
    return [
        (((CLIENT_ID, client_id), (USER, user)), user, client_id),
        (((CLIENT_ID, None), (USER, user)), user, client_id),
        by_user[0],
        (((CLIENT_ID, client_id), (USER, None)), user, client_id),
        (((CLIENT_ID, None), (USER, None)), user, client_id),
        by_user[1],
        (((CLIENT_ID, client_id),), "", client_id),
        (((CLIENT_ID, None),), "", client_id),
    ]


def _refusal(alteration: Alteration) -> KafkaError | None:
    keys: set[str] = set()
    try:
        for key, _ in alteration.changes:
            if key in keys:
                raise _invalid(f"Duplicate quota key {key}")
            keys.add(key)
        check_entity(alteration.entity)
        for key, value in alteration.changes:
            if value is not None:  # what is removed may be anything, also what is not there
                check_value(alteration.entity, key, value)
    except KafkaError as error:
        return error
    return None


def _invalid(detail: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, detail)
