"""Which quota is a client's: against Kafka's own two steps; what may be altered, and how."""

from collections.abc import Iterable
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.broker.errors import KafkaError
from tailrace.broker.quotas.codec import decode_quotas, encode_quotas
from tailrace.broker.quotas.entity import (
    CLIENT_ID,
    CONNECTION_CREATION_RATE,
    IP,
    PRODUCER_BYTE_RATE,
    USER,
    QuotaEntity,
    entity_of,
)
from tailrace.broker.quotas.table import (
    Alteration,
    Change,
    Limit,
    Quotas,
    altered,
    check_alteration,
    connection_rates,
    limit_of,
)
from tailrace.core.errors import CorruptData
from tailrace.protocol.errors import ErrorCode

ABSENT = "absent"
NAMES = (ABSENT, None, "a", "b")
ENTITIES = [
    entity_of((kind, name) for kind, name in ((USER, user), (CLIENT_ID, client)) if name != ABSENT)
    for user, client in product(NAMES, NAMES)
    if (user, client) != (ABSENT, ABSENT)
]
KEY = PRODUCER_BYTE_RATE


def check_alterations(alterations: Iterable[Alteration]) -> dict[QuotaEntity, KafkaError | None]:
    """Return what becomes of each entity."""
    outcomes: dict[QuotaEntity, KafkaError | None] = {}
    for alteration in alterations:
        check_alteration(alteration, outcomes)
    return outcomes


def kafkas_limit(bounds: dict[QuotaEntity, float], user: str, client: str) -> Limit | None:
    """Oracle: first whose metric it is, then the bound of that metric, as DefaultQuotaCallback."""

    def bound(user: str | None, client: str | None) -> float | None:
        named = ((USER, user), (CLIENT_ID, client))
        return bounds.get(entity_of((k, n) for k, n in named if n != ABSENT))

    metric_of = {
        (user, client): (user, client),
        (user, None): (user, client),
        (user, ABSENT): (user, ""),
        (None, client): (user, client),
        (None, None): (user, client),
        (None, ABSENT): (user, ""),
    }
    tags = next((tags for names, tags in metric_of.items() if bound(*names)), ("", client))
    order: dict[tuple[bool, bool], list[tuple[str | None, str | None]]] = {
        (True, True): [(user, client), (user, None), (None, client), (None, None)],
        (True, False): [(user, ABSENT), (None, ABSENT)],
        (False, True): [(ABSENT, client), (ABSENT, None)],
    }
    found = [bound(*names) for names in order[bool(tags[0]), bool(tags[1])] if bound(*names)]
    return Limit(found[0], *tags) if found and found[0] else None


@given(
    st.dictionaries(st.sampled_from(ENTITIES), st.integers(1, 9).map(float)),
    st.sampled_from(("a", "b", "c")),
    st.sampled_from(("a", "b", "c", "")),
)
def test_the_most_specific_quota_counts(
    bounds: dict[QuotaEntity, float], user: str, client: str
) -> None:
    quotas = {entity: {KEY: bound} for entity, bound in bounds.items()}
    if client:
        assert limit_of(quotas, KEY, user, client) == kafkas_limit(bounds, user, client)
    else:  # Kafka may call the bucket of a client without id by its user alone
        of_user = [bounds.get(((USER, name),)) for name in (user, None)]
        found = [each for each in of_user if each is not None]
        assert limit_of(quotas, KEY, user, client) == (Limit(found[0], user, "") if found else None)


def test_each_key_has_its_own_order() -> None:
    quotas: Quotas = {
        ((CLIENT_ID, "app"),): {"producer_byte_rate": 1.0},
        ((USER, None),): {"consumer_byte_rate": 2.0},
    }
    assert limit_of(quotas, "producer_byte_rate", "u", "app") == Limit(1.0, "", "app")
    assert limit_of(quotas, "consumer_byte_rate", "u", "app") == Limit(2.0, "u", "")
    assert limit_of(quotas, "request_percentage", "u", "app") is None


# ---- what may be altered

ANY_ENTITY = st.lists(
    st.tuples(
        st.sampled_from((USER, CLIENT_ID, IP, "group", "")),
        st.sampled_from((None, "", "a", "10.0.0.1", "::1")),
    ),
    max_size=3,
).map(entity_of)
ANY_CHANGE = st.builds(
    Change,
    st.sampled_from((KEY, "request_percentage", CONNECTION_CREATION_RATE, "nothing")),
    st.none() | st.floats() | st.sampled_from((1.0, 1.5, 2.0**40, 2.0**70)),
)
ALTERATION = st.builds(Alteration, ANY_ENTITY, st.lists(ANY_CHANGE, max_size=3).map(tuple))


@given(st.lists(st.lists(ALTERATION, max_size=3), max_size=4))
def test_what_passes_the_checks_survives_the_store(requests: list[list[Alteration]]) -> None:
    quotas: Quotas = {}
    for alterations in requests:
        outcomes = check_alterations(alterations)
        assert set(outcomes) == {each.entity for each in alterations}
        assert all(error is None or error.code == 42 for error in outcomes.values())
        quotas = altered(quotas, [each for each in alterations if not outcomes[each.entity]])
        assert all(quotas.values())  # no entity without a value
        assert decode_quotas(encode_quotas(quotas)) == quotas


def refusal(parts: list[tuple[str, str | None]], *changes: Change) -> str | None:
    entity = entity_of(parts)
    error = check_alterations([Alteration(entity, changes)])[entity]
    return None if error is None else error.detail


@pytest.mark.parametrize(
    ("parts", "key", "value"),
    [
        ([(USER, "u")], "producer_byte_rate", 1024.0),
        ([(USER, None), (CLIENT_ID, None)], "consumer_byte_rate", 2.0**62),
        ([(CLIENT_ID, "c")], "request_percentage", 0.5),
        ([(CLIENT_ID, None)], "controller_mutation_rate", 0.1),
        ([(IP, "127.0.0.1")], "connection_creation_rate", 10.0),
        ([(IP, None)], "connection_creation_rate", 1.0),
        ([(IP, "::1")], "connection_creation_rate", 2.0**31 - 1),
    ],
)
def test_what_may_be_set(parts: list[tuple[str, str | None]], key: str, value: float) -> None:
    assert refusal(parts, Change(key, value)) is None
    assert refusal(parts, Change(key, None)) is None
    for bad in (0.0, -1.0, float("nan"), float("inf")):
        assert refusal(parts, Change(key, bad)) is not None
    assert refusal(parts, Change(key, value), Change(key, value)) == f"Duplicate quota key {key}"


@pytest.mark.parametrize(
    ("parts", "key", "value", "word"),
    [
        ([], KEY, 1.0, "empty"),
        ([(USER, "")], KEY, 1.0, "Empty user"),
        ([("group", "g")], KEY, 1.0, "Unhandled"),
        ([(IP, "1.2.3.4"), (USER, "u")], KEY, 1.0, "alone"),
        ([(IP, "no address")], CONNECTION_CREATION_RATE, 1.0, "valid IP"),
        ([(IP, "1.2.3.4")], KEY, 1.0, "Invalid configuration key"),
        ([(USER, "u")], CONNECTION_CREATION_RATE, 1.0, "Invalid configuration key"),
        ([(USER, "u")], KEY, 1.5, "fractional"),
        ([(USER, "u")], KEY, 2.0**64, "too large for LONG"),
        ([(IP, None)], CONNECTION_CREATION_RATE, 2.0**31, "too large for INT"),
    ],
)
def test_what_may_not(
    parts: list[tuple[str, str | None]], key: str, value: float, word: str
) -> None:
    assert word in str(refusal(parts, Change(key, value)))


def test_an_entity_that_comes_twice_is_not_altered() -> None:
    entity = entity_of([(USER, "u")])
    twice = [Alteration(entity, (Change(KEY, value),)) for value in (1.0, 2.0)]
    error = check_alterations(twice)[entity]
    assert isinstance(error, KafkaError)
    assert error.code is ErrorCode.INVALID_REQUEST


def test_addresses_have_their_rates_and_the_default() -> None:
    quotas: Quotas = {
        ((IP, None),): {CONNECTION_CREATION_RATE: 5.0},
        ((IP, "0:0::1"),): {CONNECTION_CREATION_RATE: 7.0},
        ((USER, "u"),): {KEY: 1.0},
    }
    assert connection_rates(quotas) == {None: 5, "::1": 7}


def test_a_rate_that_is_almost_nothing_lets_one_connection_in() -> None:
    """A fraction below a millionth is a whole number to Kafka; here nobody divides by it."""
    entity = entity_of([(IP, None)])
    assert refusal([(IP, None)], Change(CONNECTION_CREATION_RATE, 5e-7)) is None
    assert connection_rates({entity: {CONNECTION_CREATION_RATE: 5e-7}}) == {None: 1}


@pytest.mark.parametrize(
    "data",
    [
        b"", b"[]", b'{"quotas":[]}x', b'{"quotas":[],"version":2}', b'{"quotas":[],"more":1}',
        b'{"quotas":[{"entity":{"user":""},"values":{"producer_byte_rate":1}}]}',
        b'{"quotas":[{"entity":{"user":"u"},"values":{"producer_byte_rate":0}}]}',
        b'{"quotas":[{"entity":{"user":"u"},"values":{"connection_creation_rate":1}}]}',
    ],
)  # fmt: skip
def test_a_node_that_is_none_is_said_so(data: bytes) -> None:
    with pytest.raises(CorruptData):
        decode_quotas(data)
