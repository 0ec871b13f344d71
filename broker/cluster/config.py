"""Settings of topics: how many copies, and the defaults of topic configs.

A topic default is a broker config under Kafka's own name. It is None while nobody set it, so that
DescribeConfigs can tell a static broker config from a default.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from tailrace.broker.cluster.config_def import InvalidConfig, text_of
from tailrace.broker.cluster.topic_configs import TOPIC_CONFIGS
from tailrace.core.runtime.config import AtLeastOne, setting


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDefaultsConfig:
    """Defaults of topic configs, by Kafka's broker names. Source: ServerTopicConfigSynonyms."""

    cleanup_policy: tuple[str, ...] | None = setting(
        "log.cleanup.policy", None, "Default of cleanup.policy."
    )
    compression_type: str | None = setting("compression.type", None, "Default of compression.type.")
    max_message_bytes: int | None = setting(
        "message.max.bytes", None, "Default of max.message.bytes. Unit: bytes of a whole batch."
    )
    min_insync_replicas: int | None = setting(
        "min.insync.replicas", None, "Default of min.insync.replicas, the ack quorum's floor."
    )
    retention_ms: int | None = setting(
        "log.retention.ms", None, "Default of retention.ms; wins over minutes and hours."
    )
    retention_minutes: int | None = setting(
        "log.retention.minutes", None, "Default of retention.ms in minutes; wins over hours."
    )
    retention_hours: int | None = setting(
        "log.retention.hours", None, "Default of retention.ms in hours."
    )
    retention_bytes: int | None = setting(
        "log.retention.bytes", None, "Default of retention.bytes, per partition; -1: no limit."
    )
    ensemble_size: int | None = setting(
        "tailrace.ensemble.size", None, "Default of tailrace.ensemble.size."
    )
    regions_min: int | None = setting(
        "tailrace.min.regions.for.durability",
        None,
        "Default of tailrace.min.regions.for.durability.",
    )
    segment_bytes: int | None = setting(
        "log.segment.bytes", None, "Default of segment.bytes; at least 1 MiB."
    )
    roll_ms: int | None = setting("log.roll.ms", None, "Default of segment.ms; wins over hours.")
    roll_hours: int | None = setting("log.roll.hours", None, "Default of segment.ms in hours.")
    roll_jitter_ms: int | None = setting(
        "log.roll.jitter.ms", None, "Default of segment.jitter.ms; wins over hours."
    )
    roll_jitter_hours: int | None = setting(
        "log.roll.jitter.hours", None, "Default of segment.jitter.ms in hours."
    )
    timestamp_type: str | None = setting(
        "log.message.timestamp.type",
        None,
        "Default of message.timestamp.type: CreateTime or LogAppendTime.",
    )
    timestamp_before_max_ms: int | None = setting(
        "log.message.timestamp.before.max.ms", None, "Default of message.timestamp.before.max.ms."
    )
    timestamp_after_max_ms: int | None = setting(
        "log.message.timestamp.after.max.ms", None, "Default of message.timestamp.after.max.ms."
    )

    def __post_init__(self) -> None:
        """Refuse what a topic config would refuse. Errors: ValueError."""
        given = self.given()
        for config in TOPIC_CONFIGS.values():
            for synonym in config.synonyms:
                if synonym.name not in given:
                    continue
                try:
                    config.parse(given[synonym.name])
                except InvalidConfig as error:
                    raise ValueError(str(error).replace(config.name, synonym.name)) from error

    def given(self) -> Mapping[str, str]:
        """Return what somebody set, as text by Kafka's broker names."""
        values = ((f.metadata["key"], getattr(self, f.name)) for f in dataclasses.fields(self))
        return {key: text_of(value) for key, value in values if value is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicsConfig:
    """How topics are made; `num.partitions` is the broker's own."""

    replication_factor: AtLeastOne = setting(
        "default.replication.factor",
        1,
        "Replication factor of a topic created without one: bookies that keep each of its batches.",
    )
    above_brokers: Literal["refuse", "clamp"] = setting(
        "tailrace.replication.factor.above.brokers",
        "refuse",
        "A replication factor above the number of bookies: 'refuse' with "
        "INVALID_REPLICATION_FACTOR as Kafka does, or 'clamp' to what there is, so that programs "
        "which ask for 3 run on one node.",
    )
    delete_enabled: bool = setting(
        "delete.topic.enable", True, "Whether topics can be deleted through the protocol."
    )
    defaults: TopicDefaultsConfig = field(default_factory=TopicDefaultsConfig)
