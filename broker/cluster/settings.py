"""A topic's overrides, what they resolve to, and how requests change them. Pure.

Effective value: topic override, else the broker's own (static) setting, else Kafka's default.
"""

from collections.abc import Mapping, Sequence
from enum import IntEnum
from functools import cached_property
from typing import Any, NamedTuple

from tailrace.broker.cluster.alterations import Changes, altered
from tailrace.broker.cluster.config_def import LONG_MAX, ConfigType, InvalidConfig, refuse, text_of
from tailrace.broker.cluster.topic_configs import TOPIC_CONFIGS, TopicConfig, topic_config
from tailrace.protocol.compression import Codec
from tailrace.protocol.records.recompress import StoredAs


class ConfigSource(IntEnum):
    """Where an effective value comes from, as DescribeConfigs numbers it."""

    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    BROKER_LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8


class SourcedValue(NamedTuple):
    """One place that gives a config a value; a config's list begins with the one in force."""

    name: str
    value: str | None
    """None: a secret."""
    source: ConfigSource


class Layer(NamedTuple):
    """Broker configs that were given in one place, as text by Kafka's broker names."""

    source: ConfigSource
    values: Mapping[str, str]


class TopicSettings(NamedTuple):
    """What a topic's configs mean for whoever acts on them."""

    cleanup_policy: tuple[str, ...]
    compression_gzip_level: int
    compression_lz4_level: int
    compression_type: str
    compression_zstd_level: int
    delete_retention_ms: int
    local_retention_bytes: int
    """-2: as `retention_bytes`; so for `local_retention_ms`."""
    local_retention_ms: int
    max_compaction_lag_ms: int
    max_message_bytes: int
    message_timestamp_after_max_ms: int
    message_timestamp_before_max_ms: int
    message_timestamp_type: str
    min_cleanable_dirty_ratio: float
    min_compaction_lag_ms: int
    min_insync_replicas: int
    remote_log_copy_disable: bool
    remote_storage_enable: bool
    retention_bytes: int
    retention_ms: int
    segment_bytes: int
    segment_jitter_ms: int
    segment_ms: int
    tailrace_ensemble_size: int
    """-1: as the replication factor."""
    tailrace_min_regions_for_durability: int
    """-1: as the broker's ledger client promises (reppMinimumRegionsForDurability)."""

    @property
    def compacted(self) -> bool:
        """Whether records need keys."""
        return "compact" in self.cleanup_policy

    @property
    def roll_ms(self) -> int:
        """Time that a segment spans; what is to be cleaned soon must be in one that ended."""
        return min(self.segment_ms, self.max_compaction_lag_ms if self.compacted else LONG_MAX)

    @property
    def deletes(self) -> bool:
        """Whether old segments go by age and size."""
        return "delete" in self.cleanup_policy

    @property
    def stored_as(self) -> StoredAs | None:
        """The codec that batches are stored in; None: the producer's."""
        if self.compression_type == "producer":
            return None
        return {
            "uncompressed": StoredAs(Codec.NONE, None),
            "gzip": StoredAs(Codec.GZIP, self.compression_gzip_level),
            "snappy": StoredAs(Codec.SNAPPY, None),
            "lz4": StoredAs(Codec.LZ4, self.compression_lz4_level),
            "zstd": StoredAs(Codec.ZSTD, self.compression_zstd_level),
        }[self.compression_type]

    @property
    def log_append_time(self) -> bool:
        """Whether records get the time of their append."""
        return self.message_timestamp_type == "LogAppendTime"


AS_WHOLE = -2
"""local.retention.*: as retention.*."""
UNLIMITED = -1


class TopicDefaults:
    """Kafka's defaults with the broker's static settings over them."""

    def __init__(
        self,
        given: Mapping[str, str],
        *,
        has_cold_storage: bool = False,
        dynamic: Sequence[Layer] = (),
    ) -> None:
        """`given`: static broker configs that somebody set, as text by Kafka's broker names.

        `dynamic`: what was given while brokers ran, the stronger first.
        """
        self.layers = (*dynamic, Layer(ConfigSource.STATIC_BROKER, dict(given)))
        self.has_cold_storage = has_cold_storage

    def with_dynamic(self, dynamic: Sequence[Layer]) -> "TopicDefaults":
        """Return the same static settings below other dynamic ones."""
        given = self.layers[-1].values
        return TopicDefaults(given, has_cold_storage=self.has_cold_storage, dynamic=dynamic)

    @cached_property
    def settings(self) -> TopicSettings:
        """What a topic without overrides gets."""
        return self.resolve({})

    def resolve(self, overrides: Mapping[str, str]) -> TopicSettings:
        """Return what a topic with these (valid) overrides gets."""
        values = {name: self.typed(config, overrides) for name, config in TOPIC_CONFIGS.items()}
        if values["internal.segment.bytes"] is not None:
            values["segment.bytes"] = values["internal.segment.bytes"]
        return TopicSettings(*(values[name.replace("_", ".")] for name in TopicSettings._fields))

    def typed(self, config: TopicConfig, overrides: Mapping[str, str]) -> Any:
        """Return the effective value of one config."""
        if config.name in overrides:
            return config.parse(overrides[config.name])
        for layer in self.layers:
            for synonym in config.synonyms:
                if synonym.name in layer.values:
                    value = config.parse(layer.values[synonym.name])
                    scaled = synonym.unit_ms > 1 and value > 0  # -1 is "no limit" in every unit
                    return min(value * synonym.unit_ms, LONG_MAX) if scaled else value
        return config.default

    def items(self, name: str, overrides: Mapping[str, str]) -> tuple[str, ...] | None:
        """Return what a topic's list config holds; None if it is no list. Errors: InvalidConfig."""
        config = topic_config(name)
        if config.kind is not ConfigType.LIST:
            return None
        found: tuple[str, ...] = self.typed(config, overrides)
        return found

    def sources(self, config: TopicConfig, overrides: Mapping[str, str]) -> list[SourcedValue]:
        """Return every place that gives this config a value, the one in force first."""
        found = []
        if config.name in overrides:
            found.append(SourcedValue(config.name, overrides[config.name], ConfigSource.TOPIC))
        for layer in self.layers:
            found += [
                SourcedValue(synonym.name, layer.values[synonym.name], layer.source)
                for synonym in config.synonyms
                if synonym.name in layer.values
            ]
        if config.synonyms and config.default is not None:
            last = config.synonyms[-1]
            default = config.default // last.unit_ms if last.unit_ms > 1 else config.default
            found.append(SourcedValue(last.name, text_of(default), ConfigSource.DEFAULT))
        return found


def check_overrides(overrides: Mapping[str, str | None], defaults: TopicDefaults) -> dict[str, str]:
    """Return overrides in their stored form: known names, canonical text, sorted.

    Errors: InvalidConfig for an unknown name, a null or bad value, or a combination that
    contradicts itself.
    """
    stored = {}
    for name, text in sorted(overrides.items()):
        config = topic_config(name)
        if text is None:
            raise InvalidConfig(f"Null value not supported for topic configs: {name}")
        stored[name] = text_of(config.parse(text))
    settings = defaults.resolve(stored)
    _check_together(settings)
    if settings.remote_storage_enable:
        _check_tiers(settings, has_cold_storage=defaults.has_cold_storage)
    return stored


def alter(
    overrides: Mapping[str, str], changes: Changes, defaults: TopicDefaults
) -> dict[str, str]:
    """Return a topic's overrides after the changes. Errors: InvalidConfig."""
    result = altered(overrides, changes, lambda name: defaults.items(name, overrides))
    return check_overrides(result, defaults)


def _check_together(settings: TopicSettings) -> None:
    if settings.min_compaction_lag_ms > settings.max_compaction_lag_ms:
        raise InvalidConfig(
            "conflict topic config setting min.compaction.lag.ms "
            f"({settings.min_compaction_lag_ms}) > max.compaction.lag.ms "
            f"({settings.max_compaction_lag_ms})"
        )


def _check_tiers(settings: TopicSettings, *, has_cold_storage: bool) -> None:
    """Refuse what Kafka refuses of a topic in two tiers, except compaction: see DESIGN.md.

    Source: Kafka's LogConfig.
    """
    if not has_cold_storage:
        raise InvalidConfig(
            "Tiered Storage functionality is disabled in the broker. Topic cannot be configured "
            "with remote log storage. Set cold.storage.url on the broker."
        )
    for name, local, whole in (
        ("ms", settings.local_retention_ms, settings.retention_ms),
        ("bytes", settings.local_retention_bytes, settings.retention_bytes),
    ):
        if local == AS_WHOLE or whole == UNLIMITED:
            continue
        if local == UNLIMITED or local > whole:
            key = f"local.retention.{name}"
            why = f"Value must not be {local} as retention.{name} value is set as {whole}."
            raise refuse(key, local, why)
