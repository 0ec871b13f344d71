import pytest

from tailrace.broker.cluster.config import TopicDefaultsConfig, TopicsConfig
from tailrace.broker.cluster.topic_configs import TOPIC_CONFIGS
from tailrace.core.runtime.config import ConfigError, load, settings_of
from tailrace.core.runtime.config_sources import from_arguments


def test_every_default_is_a_synonym_of_a_topic_config() -> None:
    synonyms = {s.name for config in TOPIC_CONFIGS.values() for s in config.synonyms}
    assert {leaf.key for leaf in settings_of(TopicDefaultsConfig)} <= synonyms


def test_only_what_is_set_is_given() -> None:
    assert TopicDefaultsConfig().given() == {}
    config = TopicDefaultsConfig(retention_hours=2, cleanup_policy=("compact", "delete"))
    assert config.given() == {
        "log.retention.hours": "2",
        "log.cleanup.policy": "compact,delete",
    }


@pytest.mark.parametrize(
    "argument",
    ["compression.type=brotli", "log.segment.bytes=5", "log.cleanup.policy=shred"],
)
def test_what_a_topic_may_not_have_no_broker_may_default_to(argument: str) -> None:
    key = argument.partition("=")[0]
    with pytest.raises(ConfigError, match=f"for configuration {key}.*--set"):
        load(TopicsConfig, from_arguments([argument]))


def test_the_tree_loads() -> None:
    config = load(
        TopicsConfig,
        from_arguments(["tailrace.replication.factor.above.brokers=clamp", "log.retention.ms=-1"]),
    ).config
    assert config.above_brokers == "clamp"
    assert config.defaults.retention_ms == -1
