"""Kafka's value forms; the golden table in test_topic_configs holds the verdicts."""

from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.broker.cluster.config_def import (
    INT_MAX,
    LONG_MAX,
    ConfigType,
    InvalidConfig,
    at_least,
    between,
    list_of,
    one_of,
    parse,
    refuse,
    text_of,
)


@given(st.integers(-(LONG_MAX + 1), LONG_MAX))
@settings(max_examples=100)
def test_whole_numbers_round_trip(value: int) -> None:
    assert parse("x", ConfigType.LONG, text_of(value)) == value


@given(st.lists(st.text("ab:*01", min_size=1), max_size=4).map(tuple))
@settings(max_examples=100)
def test_lists_round_trip(value: tuple[str, ...]) -> None:
    assert parse("x", ConfigType.LIST, text_of(value)) == value


def test_spaces_around_the_items_of_a_list_do_not_count() -> None:
    assert parse("x", ConfigType.LIST, " a ,\tb,  c d , ") == ("a", "b", "c d", "")
    many = "a" + " " * 30_000 + "b"  # the square of it was 1.5 seconds; ruff forbids what did that
    assert parse("x", ConfigType.LIST, many) == (many,)


@given(st.sampled_from(ConfigType), st.text(max_size=12))
@settings(max_examples=200)
def test_text_parses_or_is_refused(kind: ConfigType, text: str) -> None:
    try:
        parse("x", kind, text)
    except InvalidConfig as error:
        assert str(error).startswith("Invalid value")  # noqa: PT017


def test_checks() -> None:
    assert at_least(1)(0) == "Value must be at least 1"
    assert at_least(1)(1) is None
    assert between(0, 1)(2) == "Value must be no more than 1"
    assert between(0, 1)(-1) == "Value must be at least 0"
    assert between(0, 1)(0.5) is None
    assert one_of("a", "b")("c") == "String must be one of: a, b"
    assert list_of("a", "b")(("a", "c")) == "String must be one of: a, b"
    assert list_of("a", "b")(()) is None


def test_refusals_show_values_as_kafka_does() -> None:
    assert str(refuse("n", ("a", "b"), "no")) == "Invalid value [a, b] for configuration n: no"
    assert str(refuse("n", True, "no")) == "Invalid value true for configuration n: no"
    assert str(refuse("n", INT_MAX, "no")) == f"Invalid value {INT_MAX} for configuration n: no"
