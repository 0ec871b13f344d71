"""The table of topic configs: Kafka 4.3's names, types, defaults, checks; what acts here. Pure.

A value is accepted only when it acts, or when ignoring it is what Kafka does as well or gives what
the caller asked for in a stricter form. Everything else is refused with the reason: a setting that
looks set and does nothing is worse than an error. The reasons are in DESIGN.md.
Source: org.apache.kafka.storage.internals.log.LogConfig 4.3.1, ServerTopicConfigSynonyms.
"""

from collections.abc import Iterable, Mapping
from enum import Enum
from types import MappingProxyType
from typing import Any, NamedTuple

from tailrace.broker.cluster.config_def import (
    LONG_MAX,
    Check,
    ConfigType,
    InvalidConfig,
    at_least,
    between,
    list_of,
    one_of,
    parse,
    refuse,
)
from tailrace.core.log.config import RECORD_BYTES_LIMIT
from tailrace.core.runtime.decimal_text import INT32_MAX, decimal

MAX_MESSAGE_BYTES_LIMIT = RECORD_BYTES_LIMIT
"""What the largest frame of a bookie here carries: no batch above it can ever be stored."""

HOUR_MS = 3_600_000
MINUTE_MS = 60_000


class Effect(Enum):
    """What setting a config does here."""

    ACTS = "acts"
    NOTHING = "nothing, as in Kafka without the feature or with less than what we do anyway"


class Synonym(NamedTuple):
    """A broker config that gives the default of a topic config."""

    name: str
    unit_ms: int = 1
    """The broker's value times this is the topic's value."""


class TopicConfig(NamedTuple):
    """One topic config."""

    name: str
    kind: ConfigType
    default: Any
    check: Check | None
    synonyms: tuple[Synonym, ...]
    effect: Effect
    doc: str
    internal: bool = False
    """Shown only where it is set; meant for tests."""

    def parse(self, text: str) -> Any:
        """Return the typed value of a text. Errors: InvalidConfig."""
        value = parse(self.name, self.kind, text)
        why = self.check(value) if self.check else None
        if why:
            raise refuse(self.name, value, why)
        return value


def _both(first: Check, second: Check) -> Check:
    return lambda value: first(value) or second(value)


def _storable(value: int) -> str | None:
    if value <= MAX_MESSAGE_BYTES_LIMIT:
        return None
    return (
        f"Value must be no more than {MAX_MESSAGE_BYTES_LIMIT}: a batch is stored as one ledger "
        "entry, and a bookie's largest frame ends there"
    )


def _throttled_replicas(values: tuple[str, ...]) -> str | None:
    def fits(item: str) -> bool:
        partition, colon, broker = item.partition(":")
        numbers = decimal(partition, INT32_MAX), decimal(broker, INT32_MAX)
        return bool(colon) and None not in numbers

    if values == ("*",) or all(fits(item) for item in values):
        return None
    return "must be the literal '*' or a list of [partitionId]:[brokerId],..."


def _names(*names: str | Synonym) -> tuple[Synonym, ...]:
    return tuple(name if isinstance(name, Synonym) else Synonym(name) for name in names)


_CODECS = one_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")
_GZIP_FAULT = "Value must be between 1 and 9 or equal to -1"

_B, _S, _I, _L, _D, _LIST = (
    ConfigType.BOOLEAN,
    ConfigType.STRING,
    ConfigType.INT,
    ConfigType.LONG,
    ConfigType.DOUBLE,
    ConfigType.LIST,
)
_OFF = False
_ACTS, _NOTHING = Effect.ACTS, Effect.NOTHING

_TABLE = (
    TopicConfig(
        "cleanup.policy", _LIST, ("delete",), list_of("compact", "delete"),
        _names("log.cleanup.policy"), _ACTS,
        "What may be removed: 'delete' drops whole segments by age and size, 'compact' keeps the "
        "last record of each key and refuses records without one; both or none may be given.",
    ),
    TopicConfig(
        "compression.gzip.level", _I, -1,
        lambda v: None if v == -1 or 1 <= v <= 9 else _GZIP_FAULT,
        _names("compression.gzip.level"), _ACTS,
        "Level for compression.type=gzip: 1 to 9, or -1 for zlib's own default.",
    ),
    TopicConfig(
        "compression.lz4.level", _I, 9, between(1, 17), _names("compression.lz4.level"), _ACTS,
        "Level for compression.type=lz4; 9 is the fast compressor, as in Kafka.",
    ),
    TopicConfig(
        "compression.type", _S, "producer", _CODECS, _names("compression.type"), _ACTS,
        "Compression of stored batches: 'producer' keeps them as they came; else those of another "
        "codec are compressed anew, which costs the broker's time for every batch.",
    ),
    TopicConfig(
        "compression.zstd.level", _I, 3, between(-131072, 22), _names("compression.zstd.level"),
        _ACTS,
        "Level for compression.type=zstd.",
    ),
    TopicConfig(
        "delete.retention.ms", _L, 86_400_000, at_least(0),
        _names("log.cleaner.delete.retention.ms"), _ACTS,
        "How long tombstones stay at least after a log was compacted.",
    ),
    TopicConfig(
        "file.delete.delay.ms", _L, 60_000, at_least(0), _names("log.segment.delete.delay.ms"),
        _NOTHING,
        "Delay before removed segment files go; removed ledgers are collected by the bookies.",
    ),
    TopicConfig(
        "flush.messages", _L, LONG_MAX, at_least(1), _names("log.flush.interval.messages"),
        _NOTHING,
        "Records between two syncs; here every batch is synced before it is acknowledged.",
    ),
    TopicConfig(
        "flush.ms", _L, LONG_MAX, at_least(0), _names("log.flush.interval.ms"), _NOTHING,
        "Time between two syncs; here every batch is synced before it is acknowledged.",
    ),
    TopicConfig(
        "follower.replication.throttled.replicas", _LIST, (), _throttled_replicas, (), _NOTHING,
        "Follower replicas to throttle; brokers do not replicate, bookies do.",
    ),
    TopicConfig(
        "index.interval.bytes", _I, 4_096, at_least(0), _names("log.index.interval.bytes"),
        _NOTHING,
        "Bytes between two index entries; a hint that changes no answer.",
    ),
    TopicConfig(
        "internal.segment.bytes", _I, None, at_least(1), (), _ACTS,
        "Segment size below the smallest segment.bytes; for tests.", internal=True,
    ),
    TopicConfig(
        "leader.replication.throttled.replicas", _LIST, (), _throttled_replicas, (), _NOTHING,
        "Leader replicas to throttle; brokers do not replicate, bookies do.",
    ),
    TopicConfig(
        "local.retention.bytes", _L, -2, at_least(-2), _names("log.local.retention.bytes"), _ACTS,
        "Size of a partition on the bookies above which segments in cold storage leave them; -2 "
        "means as retention.bytes, -1 no limit.",
    ),
    TopicConfig(
        "local.retention.ms", _L, -2, at_least(-2), _names("log.local.retention.ms"), _ACTS,
        "Age above which segments in cold storage leave the bookies; -2 means as retention.ms, -1 "
        "no limit.",
    ),
    TopicConfig(
        "max.compaction.lag.ms", _L, LONG_MAX, at_least(1),
        _names("log.cleaner.max.compaction.lag.ms"), _ACTS,
        "Longest time a record may stay uncompacted, once its segment has ended: segments of "
        "compacted topics end after so long.",
    ),
    TopicConfig(
        "max.message.bytes", _I, 1_048_588, _both(at_least(0), _storable),
        _names("message.max.bytes"), _ACTS,
        "Largest record batch, compressed and with its header. Above 5242247 bytes it needs "
        "bookies whose nettyMaxFrameSizeBytes is above BookKeeper's default, as Tailrace's is.",
    ),
    TopicConfig(
        "message.timestamp.after.max.ms", _L, HOUR_MS, at_least(0),
        _names("log.message.timestamp.after.max.ms"), _ACTS,
        "How far a record's own timestamp may lie after the broker's time.",
    ),
    TopicConfig(
        "message.timestamp.before.max.ms", _L, LONG_MAX, at_least(0),
        _names("log.message.timestamp.before.max.ms"), _ACTS,
        "How far a record's own timestamp may lie before the broker's time.",
    ),
    TopicConfig(
        "message.timestamp.type", _S, "CreateTime", one_of("CreateTime", "LogAppendTime"),
        _names("log.message.timestamp.type"), _ACTS,
        "Whether records keep the producer's timestamp or get the time of their append.",
    ),
    TopicConfig(
        "min.cleanable.dirty.ratio", _D, 0.5, between(0, 1),
        _names("log.cleaner.min.cleanable.ratio"), _ACTS,
        "Share of a log that must be uncompacted before the cleaner takes it up.",
    ),
    TopicConfig(
        "min.compaction.lag.ms", _L, 0, at_least(0),
        _names("log.cleaner.min.compaction.lag.ms"), _ACTS,
        "Shortest time a record stays uncompacted.",
    ),
    TopicConfig(
        "min.insync.replicas", _I, 1, at_least(1), _names("min.insync.replicas"), _ACTS,
        "Copies that must be acknowledged before acks=all is answered; a produce request gets "
        "NOT_ENOUGH_REPLICAS while the ack quorum is smaller.",
    ),
    TopicConfig(
        "preallocate", _B, _OFF, None, _names("log.preallocate"), _NOTHING,
        "Preallocate segment files; bookies manage their own files.",
    ),
    TopicConfig(
        "remote.log.copy.disable", _B, _OFF, None, (), _ACTS,
        "Copy no more segments to cold storage; what is there stays and is read.",
    ),
    TopicConfig(
        "remote.log.delete.on.disable", _B, _OFF, None, (), _NOTHING,
        "Delete tiered data when tiering is switched off; here it stays until retention.ms.",
    ),
    TopicConfig(
        "remote.storage.enable", _B, _OFF, None, (), _ACTS,
        "Copy completed segments to cold storage, of a compacted topic those that are clean; needs "
        "cold.storage.url. retention.ms and retention.bytes then count both tiers.",
    ),
    TopicConfig(
        "retention.bytes", _L, -1, None, _names("log.retention.bytes"), _ACTS,
        "Size of a partition above which its oldest segments go; -1 means no limit.",
    ),
    TopicConfig(
        "retention.ms", _L, 7 * 24 * HOUR_MS, at_least(-1),
        _names(
            "log.retention.ms",
            Synonym("log.retention.minutes", MINUTE_MS),
            Synonym("log.retention.hours", HOUR_MS),
        ),
        _ACTS, "Age above which segments go; -1 means no limit.",
    ),
    TopicConfig(
        "segment.bytes", _I, 1_073_741_824, at_least(1_048_576), _names("log.segment.bytes"),
        _ACTS, "Size at which a log segment is completed and the next begun.",
    ),
    TopicConfig(
        "segment.index.bytes", _I, 10_485_760, at_least(4), _names("log.index.size.max.bytes"),
        _NOTHING, "Size of an offset index file; there are none here.",
    ),
    TopicConfig(
        "segment.jitter.ms", _L, 0, at_least(0),
        _names("log.roll.jitter.ms", Synonym("log.roll.jitter.hours", HOUR_MS)), _ACTS,
        "Largest random time taken off segment.ms, for each segment another.",
    ),
    TopicConfig(
        "segment.ms", _L, 7 * 24 * HOUR_MS, at_least(1),
        _names("log.roll.ms", Synonym("log.roll.hours", HOUR_MS)), _ACTS,
        "Time between the first record of a log segment and one that begins the next, by their "
        "timestamps; by the clock where records have none.",
    ),
    TopicConfig(
        "tailrace.ensemble.size", _I, -1,
        lambda v: None if v == -1 or v >= 1 else "Value must be at least 1, or -1",
        _names("tailrace.ensemble.size"), _ACTS,
        "Bookies that a log segment is spread over, at least the replication factor; -1: as many "
        "as that. Said when a topic is created.",
    ),
    TopicConfig(
        "tailrace.min.regions.for.durability", _I, -1,
        lambda v: None if v >= -1 else "Value must be at least 0, or -1",
        _names("tailrace.min.regions.for.durability"), _ACTS,
        "Regions that hold every acknowledged batch; 0 or 1: no promise, -1: as "
        "reppMinimumRegionsForDurability. Raises the copies that are waited for, if the majority "
        "is too few. Said when a topic is created.",
    ),
    TopicConfig(
        "unclean.leader.election.enable", _B, _OFF, None,
        _names("unclean.leader.election.enable"), _NOTHING,
        "Let a replica that lags become leader; an owner always recovers every confirmed entry.",
    ),
)  # fmt: skip

TOPIC_CONFIGS: Mapping[str, TopicConfig] = MappingProxyType({c.name: c for c in _TABLE})


def topic_config(name: str) -> TopicConfig:
    """Return a config by name. Errors: InvalidConfig for an unknown one."""
    try:
        return TOPIC_CONFIGS[name]
    except KeyError:
        raise InvalidConfig(f"Unknown topic config name: {name}") from None


def topic_configs_shown(overrides: Iterable[str]) -> list[TopicConfig]:
    """Return what DescribeConfigs lists: all public configs, and internal ones that are set."""
    names = set(overrides)
    return [config for config in _TABLE if not config.internal or config.name in names]
