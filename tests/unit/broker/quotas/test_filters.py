"""Which entities a filter finds: against a sentence written out, and Kafka's refusals."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.broker.errors import KafkaError
from tailrace.broker.quotas.entity import CLIENT_ID, IP, USER, entity_of
from tailrace.broker.quotas.filters import Match, filter_of
from tailrace.protocol.errors import ErrorCode

NAMES = ("absent", None, "a", "b")
ENTITIES = [
    entity_of((kind, name) for kind, name in zip((USER, CLIENT_ID), names, strict=True)
              if name != "absent")
    for names in product(NAMES, NAMES)
][1:]  # fmt: skip
COMPONENT = st.sampled_from(
    [(Match.EXACT, "a"), (Match.EXACT, "c"), (Match.DEFAULT, None), (Match.ANY, None)]
)


@given(st.dictionaries(st.sampled_from((USER, CLIENT_ID)), COMPONENT), st.booleans())
def test_an_entity_is_found_if_every_component_fits(
    components: dict[str, tuple[Match, str | None]], strict: bool
) -> None:
    wanted = filter_of([(kind, *each) for kind, each in components.items()], strict=strict)
    for entity in ENTITIES:
        has = dict(entity)
        fits = all(
            kind in has and (match is Match.ANY or has[kind] == name)
            for kind, (match, name) in components.items()
        )
        assert wanted.matches(entity) is (fits and (not strict or has.keys() == components.keys()))


@pytest.mark.parametrize(
    ("components", "code"),
    [
        ([("", 0, "x")], ErrorCode.INVALID_REQUEST),
        ([("group", 0, "x")], ErrorCode.UNSUPPORTED_VERSION),
        ([(USER, 0, "x"), (USER, 2, None)], ErrorCode.INVALID_REQUEST),
        ([(USER, 0, None)], ErrorCode.INVALID_REQUEST),
        ([(USER, 1, "x")], ErrorCode.INVALID_REQUEST),
        ([(USER, 2, "x")], ErrorCode.INVALID_REQUEST),
        ([(USER, 3, None)], ErrorCode.INVALID_REQUEST),
        ([(USER, -1, "x")], ErrorCode.INVALID_REQUEST),
        ([(IP, 2, None), (USER, 2, None)], ErrorCode.INVALID_REQUEST),
        ([(CLIENT_ID, 1, None), (IP, 0, "1.2.3.4")], ErrorCode.INVALID_REQUEST),
    ],
)
def test_filters_that_kafka_refuses(
    components: list[tuple[str, int, str | None]], code: ErrorCode
) -> None:
    with pytest.raises(KafkaError) as refused:
        filter_of(components, strict=False)
    assert refused.value.code is code
