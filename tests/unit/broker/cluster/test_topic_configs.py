"""The table against Kafka's own: names, types, defaults, synonyms, and what is accepted."""

from pathlib import Path

import pytest

from tailrace.broker.cluster.config_def import InvalidConfig, text_of
from tailrace.broker.cluster.settings import TopicDefaults, check_overrides
from tailrace.broker.cluster.topic_configs import (
    MAX_MESSAGE_BYTES_LIMIT,
    TOPIC_CONFIGS,
    Effect,
    topic_config,
    topic_configs_shown,
)

GOLDEN = Path(__file__).parents[3] / "golden" / "topic-configs.txt"
ROWS = [line.split("|", 3) for line in GOLDEN.read_text().splitlines() if "|" in line]

OURS = "tailrace."
"""Configs that Kafka does not have."""

# `flush.ms` also falls back on log.flush.scheduler.interval.ms, which is a poll interval of the
# broker's own; there is nothing here to poll.
NO_SYNONYM = "log.flush.scheduler.interval.ms"


def refused_here_only(name: str, value: str) -> bool:
    """What Kafka accepts and this broker does not; each has its reason in DESIGN.md."""
    return (name == "max.message.bytes" and int(value) > MAX_MESSAGE_BYTES_LIMIT) or (
        name == "internal.segment.bytes" and int(value) < 1
    )


def golden_configs() -> list[list[str]]:
    lines = [line.split("|") for line in GOLDEN.read_text().splitlines()]
    return [fields[1:] for fields in lines if fields[0] == "config"]


def test_the_table_has_kafkas_rows() -> None:
    ours = [
        [
            config.name,
            config.kind.name,
            "null" if config.default is None else text_of(config.default),
            ",".join(synonym.name for synonym in config.synonyms),
            text_of(config.internal),
        ]
        for config in TOPIC_CONFIGS.values()
        if not config.name.startswith(OURS)
    ]
    theirs = [
        [n, k, d, ",".join(s for s in synonyms.split(",") if s != NO_SYNONYM), i]
        for n, k, d, synonyms, i in golden_configs()
    ]
    assert sorted(ours) == sorted(theirs)


@pytest.mark.parametrize("name", sorted(n for n in TOPIC_CONFIGS if not n.startswith(OURS)))
def test_values_are_accepted_as_kafka_does(name: str) -> None:
    rows = [(value, verdict) for kind, n, value, verdict in ROWS if (kind, n) == ("value", name)]
    assert rows
    for value, theirs in rows:
        try:
            check_overrides({name: value}, TopicDefaults({}, has_cold_storage=True))
            ours = "ok"
        except InvalidConfig as error:
            ours = str(error)
        if theirs == "ok" and ours != "ok":
            assert refused_here_only(name, value), (value, ours)
        elif theirs != "ok":
            assert ours.startswith("Invalid value"), (value, theirs)


@pytest.mark.parametrize(
    "value", ["1.5", "abc", "", "2147483648", "0"], ids=["decimal", "word", "empty", "big", "low"]
)
def test_refusals_use_kafkas_words(value: str) -> None:
    theirs = next(v for k, n, x, v in ROWS if (k, n, x) == ("value", "segment.bytes", value))
    with pytest.raises(InvalidConfig) as error:
        topic_config("segment.bytes").parse(value)
    assert str(error.value) == theirs


def test_unknown_names_are_refused_as_kafka_does() -> None:
    for name in ("message.format.version", "message.downconversion.enable", "nope", ""):
        with pytest.raises(InvalidConfig, match=f"^Unknown topic config name: {name}$"):
            topic_config(name)


def test_every_config_says_what_it_does() -> None:
    for config in TOPIC_CONFIGS.values():
        assert config.doc.endswith(".")
        assert isinstance(config.effect, Effect)
        if config.default is not None:
            assert config.parse(text_of(config.default)) == config.default


def test_internal_configs_show_only_where_set() -> None:
    assert "internal.segment.bytes" not in {c.name for c in topic_configs_shown({})}
    shown = topic_configs_shown({"internal.segment.bytes": "1"})
    assert "internal.segment.bytes" in {c.name for c in shown}
    assert len(shown) == len(TOPIC_CONFIGS)


def test_what_connect_streams_and_the_console_ask_for_is_accepted() -> None:
    for overrides in (
        {"cleanup.policy": "compact", "min.insync.replicas": "1"},
        {"cleanup.policy": "compact,delete", "retention.ms": "86400000"},
        {"message.timestamp.type": "CreateTime", "segment.bytes": "52428800"},
        {"cleanup.policy": "delete", "retention.ms": "-1", "segment.bytes": "52428800"},
        {"compression.type": "producer", "max.message.bytes": "5242880"},
        {"retention.ms": "9223372036854775807", "retention.bytes": "-1"},
        {"unclean.leader.election.enable": "false", "min.compaction.lag.ms": "60000"},
    ):
        assert check_overrides(overrides, TopicDefaults({})) == dict(sorted(overrides.items()))
