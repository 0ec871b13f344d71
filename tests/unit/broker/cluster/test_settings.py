"""Overrides: what they resolve to, where values come from, and what changes leave."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.broker.cluster.alterations import Alteration, Changes, ConfigOp
from tailrace.broker.cluster.config_def import LONG_MAX, InvalidConfig, text_of
from tailrace.broker.cluster.settings import (
    ConfigSource,
    Layer,
    SourcedValue,
    TopicDefaults,
    alter,
    check_overrides,
)
from tailrace.broker.cluster.topic_configs import TOPIC_CONFIGS, topic_config

PLAIN = TopicDefaults({})
SET, DELETE, APPEND, SUBTRACT = ConfigOp


def test_defaults_are_kafkas() -> None:
    got = PLAIN.settings
    assert got.retention_ms == 604_800_000
    assert got.max_message_bytes == 1_048_588
    assert got.min_insync_replicas == 1
    assert (got.deletes, got.compacted, got.log_append_time) == (True, False, False)


def test_an_override_wins_over_the_broker_and_the_broker_over_the_default() -> None:
    defaults = TopicDefaults({"log.segment.bytes": "2000000", "log.cleanup.policy": "compact"})
    assert defaults.settings.segment_bytes == 2_000_000
    assert defaults.settings.compacted
    assert defaults.resolve({"segment.bytes": "3000000"}).segment_bytes == 3_000_000


@pytest.mark.parametrize(
    ("given_configs", "retention_ms"),
    [
        ({"log.retention.hours": "2"}, 7_200_000),
        ({"log.retention.hours": "2", "log.retention.minutes": "3"}, 180_000),
        ({"log.retention.minutes": "3", "log.retention.ms": "4"}, 4),
        ({"log.retention.hours": "-1"}, -1),
        ({"log.retention.hours": str(LONG_MAX)}, LONG_MAX),
    ],
)
def test_the_finer_unit_wins(given_configs: dict[str, str], retention_ms: int) -> None:
    assert TopicDefaults(given_configs).settings.retention_ms == retention_ms


def test_the_internal_segment_size_acts() -> None:
    assert PLAIN.resolve({"internal.segment.bytes": "100"}).segment_bytes == 100


def test_sources_begin_with_the_one_in_force() -> None:
    defaults = TopicDefaults({"log.retention.minutes": "3"})
    config = topic_config("retention.ms")
    assert defaults.sources(config, {"retention.ms": "5"}) == [
        SourcedValue("retention.ms", "5", ConfigSource.TOPIC),
        SourcedValue("log.retention.minutes", "3", ConfigSource.STATIC_BROKER),
        SourcedValue("log.retention.hours", "168", ConfigSource.DEFAULT),
    ]
    assert PLAIN.sources(topic_config("remote.storage.enable"), {}) == []


def test_dynamic_layers_stand_above_the_static_one() -> None:
    layers = (
        Layer(ConfigSource.DYNAMIC_BROKER, {"log.retention.ms": "7"}),
        Layer(ConfigSource.DYNAMIC_DEFAULT_BROKER, {"log.retention.ms": "8", "log.roll.ms": "9"}),
    )
    defaults = TopicDefaults({"log.retention.ms": "1", "log.roll.ms": "2"}).with_dynamic(layers)
    assert (defaults.settings.retention_ms, defaults.settings.segment_ms) == (7, 9)
    sources = defaults.sources(topic_config("retention.ms"), {"retention.ms": "6"})
    assert [(place.value, int(place.source)) for place in sources] == [
        ("6", 1), ("7", 2), ("8", 3), ("1", 4), ("168", 5),
    ]  # fmt: skip
    assert defaults.with_dynamic(()).settings.retention_ms == 1


def test_the_whole_is_replaced_when_asked() -> None:
    before = {"retention.ms": "5", "segment.ms": "6"}
    changes = Changes([Alteration("segment.ms", SET, "7")], whole=True)
    assert alter(before, changes, PLAIN) == {"segment.ms": "7"}


@given(st.sampled_from(sorted(TOPIC_CONFIGS)), st.booleans(), st.booleans())
@settings(max_examples=150)
def test_the_first_source_is_the_value_in_force(name: str, on_topic: bool, on_broker: bool) -> None:
    config = topic_config(name)
    text = text_of(config.default) if config.default is not None else "7"
    defaults = TopicDefaults(
        {config.synonyms[0].name: text} if on_broker and config.synonyms else {}
    )
    overrides = {name: text} if on_topic else {}
    sources = defaults.sources(config, overrides)
    value = defaults.typed(config, overrides)
    if sources and sources[0].name in (name, *(s.name for s in config.synonyms if s.unit_ms == 1)):
        assert config.parse(sources[0].value) == value
    order = [source.source for source in sources]
    assert order == sorted(order)


def test_stored_form_is_canonical() -> None:
    given_configs = {
        "segment.ms": " +7 ",
        "preallocate": "TRUE",
        "cleanup.policy": "delete ,compact",
    }
    assert check_overrides(given_configs, PLAIN) == {
        "cleanup.policy": "delete,compact",
        "preallocate": "true",
        "segment.ms": "7",
    }


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        ({"nope": "1"}, "Unknown topic config name: nope"),
        ({"retention.ms": None}, "Null value not supported for topic configs: retention.ms"),
        ({"min.compaction.lag.ms": "9", "max.compaction.lag.ms": "8"}, "conflict topic config"),
    ],
)
def test_overrides_refused(overrides: dict[str, str | None], words: str) -> None:
    with pytest.raises(InvalidConfig, match=words):
        check_overrides(overrides, PLAIN)


@pytest.mark.parametrize(
    ("before", "change", "after"),
    [
        ({}, ("retention.ms", SET, "5"), {"retention.ms": "5"}),
        ({"retention.ms": "5"}, ("retention.ms", DELETE, None), {}),
        ({}, ("nobody.knows", DELETE, None), {}),
        ({}, ("cleanup.policy", APPEND, "compact"), {"cleanup.policy": "delete,compact"}),
        ({}, ("cleanup.policy", APPEND, "delete"), {"cleanup.policy": "delete"}),
        (
            {"cleanup.policy": "delete,compact"},
            ("cleanup.policy", SUBTRACT, "delete"),
            {"cleanup.policy": "compact"},
        ),
        ({}, ("cleanup.policy", SUBTRACT, "delete"), {"cleanup.policy": ""}),
    ],
)
def test_changes(
    before: dict[str, str], change: tuple[str, ConfigOp, str | None], after: dict[str, str]
) -> None:
    assert alter(before, Changes([Alteration(*change)]), PLAIN) == after


@pytest.mark.parametrize("op", [APPEND, SUBTRACT])
def test_only_lists_can_be_appended_to(op: ConfigOp) -> None:
    with pytest.raises(InvalidConfig, match="its type is not LIST"):
        alter({}, Changes([Alteration("retention.ms", op, "5")]), PLAIN)


def test_a_change_may_not_make_a_contradiction() -> None:
    with pytest.raises(InvalidConfig):
        alter(
            {"max.compaction.lag.ms": "5"},
            Changes([Alteration("min.compaction.lag.ms", SET, "6")]),
            PLAIN,
        )


def test_segments_of_compacted_topics_end_in_time_to_be_cleaned() -> None:
    lag = {"max.compaction.lag.ms": "8", "segment.ms": "9"}
    assert PLAIN.resolve(lag).roll_ms == 9
    assert PLAIN.resolve(lag | {"cleanup.policy": "compact"}).roll_ms == 8
    assert PLAIN.resolve({"cleanup.policy": "compact", "segment.ms": "9"}).roll_ms == 9


TIERED = {"remote.storage.enable": "true"}


def test_tiers_need_cold_storage() -> None:
    with pytest.raises(InvalidConfig, match=r"cold\.storage\.url"):
        check_overrides(TIERED, PLAIN)
    defaults = TopicDefaults({}, has_cold_storage=True)
    assert check_overrides(TIERED, defaults) == TIERED
    assert check_overrides({"remote.storage.enable": "false"}, PLAIN)


@pytest.mark.parametrize(
    "more",
    [
        {"retention.ms": "1000", "local.retention.ms": "1001"},
        {"retention.ms": "1000", "local.retention.ms": "-1"},
        {"retention.bytes": "1000", "local.retention.bytes": "1001"},
        {"retention.bytes": "1000", "local.retention.bytes": "-1"},
    ],
)
def test_contradictions_of_tiers(more: dict[str, str]) -> None:
    defaults = TopicDefaults({}, has_cold_storage=True)
    with pytest.raises(InvalidConfig):
        check_overrides({**TIERED, **more}, defaults)
    assert check_overrides(more, defaults), "without tiers they mean nothing"


@pytest.mark.parametrize(
    "more",
    [
        {"cleanup.policy": "compact"},
        {"cleanup.policy": "compact,delete"},
        {"retention.ms": "1000", "local.retention.ms": "1000"},
        {"retention.ms": "-1", "local.retention.ms": "-1"},
        {"retention.ms": "-1", "local.retention.ms": "5"},
        {"retention.bytes": "1000", "local.retention.bytes": "-2"},
    ],
)
def test_tiers_that_fit_together(more: dict[str, str]) -> None:
    defaults = TopicDefaults({}, has_cold_storage=True)
    assert check_overrides({**TIERED, **more}, defaults) == {**TIERED, **more}
