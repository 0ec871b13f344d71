from dataclasses import dataclass

from tailrace.broker.cluster.broker_configs import Fact, broker_entries
from tailrace.broker.cluster.config_def import ConfigType
from tailrace.broker.cluster.settings import ConfigSource, Layer, TopicDefaults
from tailrace.broker.config import BrokerConfig
from tailrace.core.runtime.config import setting


@dataclass(frozen=True, kw_only=True)
class Config:
    flag: bool = setting("a.flag", False, "a flag")
    number: int = setting("a.number", 5, "a number")
    big: int = setting("a.big", 2**40, "a big number")
    names: tuple[str, ...] | None = setting("a.names", None, "names")


def test_values_types_and_sources() -> None:
    entries = {e.name: e for e in broker_entries(Config(flag=True), {}, TopicDefaults({}))}
    flag = entries["a.flag"]
    assert (flag.value, flag.kind, flag.read_only) == ("true", ConfigType.BOOLEAN, True)
    assert [(s.value, s.source) for s in flag.synonyms] == [
        ("true", ConfigSource.STATIC_BROKER),
        ("false", ConfigSource.DEFAULT),
    ]
    assert entries["a.number"].synonyms[0].source is ConfigSource.DEFAULT
    assert entries["a.number"].kind is ConfigType.INT
    assert entries["a.big"].kind is ConfigType.LONG
    assert entries["a.names"].kind is ConfigType.LIST


def test_topic_defaults_show_under_their_broker_names() -> None:
    defaults = TopicDefaults({"log.retention.minutes": "5"})
    entries = {e.name: e for e in broker_entries(Config(), {}, defaults)}
    assert entries["log.retention.hours"].value == "168"
    assert entries["log.retention.minutes"].value == "5"
    assert entries["log.retention.minutes"].synonyms[0].source is ConfigSource.STATIC_BROKER
    assert entries["log.retention.ms"].value is None
    assert entries["message.max.bytes"].value == "1048588"


def test_what_was_given_at_run_time_comes_first() -> None:
    defaults = TopicDefaults({"log.retention.ms": "1"}).with_dynamic(
        (
            Layer(ConfigSource.DYNAMIC_BROKER, {"log.retention.ms": "3", "max.connections": "9"}),
            Layer(ConfigSource.DYNAMIC_DEFAULT_BROKER, {"log.retention.ms": "2"}),
        )
    )
    entries = {e.name: e for e in broker_entries(BrokerConfig(), {}, defaults)}
    retention, connections = entries["log.retention.ms"], entries["max.connections"]
    assert [(place.name, place.value, int(place.source)) for place in retention.synonyms] == [
        ("log.retention.ms", "3", 2),
        ("log.retention.ms", "2", 3),
        ("log.retention.ms", "1", 4),
        ("log.retention.hours", "168", 5),
    ]
    assert (connections.value, connections.synonyms[0].source) == ("9", 2)
    assert {name for name in entries if not entries[name].read_only} >= {
        "log.retention.ms", "max.connections", "message.max.bytes", "log.cleanup.policy",
    }  # fmt: skip
    assert all(entries[name].read_only for name in ("log.retention.hours", "node.id", "listeners"))


def test_the_real_broker_has_what_tools_look_for() -> None:
    facts = {
        "advertised.listeners": Fact(ConfigType.LIST, "PLAINTEXT://h:1"),
        "broker.id": Fact(ConfigType.INT, "1"),
    }
    entries = broker_entries(BrokerConfig(), facts, TopicDefaults({}))
    names = [entry.name for entry in entries]
    assert names == sorted(names)
    assert {
        "node.id",
        "broker.id",
        "advertised.listeners",
        "num.partitions",
        "default.replication.factor",
        "min.insync.replicas",
        "auto.create.topics.enable",
        "delete.topic.enable",
        "message.max.bytes",
        "fetch.max.bytes",
        "socket.request.max.bytes",
        "log.retention.hours",
        "log.segment.bytes",
        "log.cleanup.policy",
        "compression.type",
        "log.message.timestamp.type",
        "offsets.retention.minutes",
        "replica.fetch.max.bytes",
        "replica.lag.time.max.ms",
        "request.timeout.ms",
        "transaction.max.timeout.ms",
        "transactional.id.expiration.ms",
    } <= set(names)
