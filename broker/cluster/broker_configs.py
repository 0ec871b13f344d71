"""What DescribeConfigs says about a broker: its settings, and the defaults that topics get. Pure.

Every setting of the process under the name that users write, the names that Kafka's tools look for,
and the broker-level names of topic configs with the value in force. All are read-only: a change
is a restart.
"""

import typing
from collections.abc import Iterator, Mapping
from types import UnionType
from typing import Any, NamedTuple

from broker.cluster.config_def import INT_MAX, ConfigType, text_of
from broker.cluster.settings import ConfigSource, SourcedValue, TopicDefaults
from broker.cluster.topic_configs import TOPIC_CONFIGS, Synonym, TopicConfig
from core.runtime.config import settings_of, shown, values_of


class BrokerEntry(NamedTuple):
    """One broker config as it is in force."""

    name: str
    value: str | None
    kind: ConfigType
    source: ConfigSource
    synonyms: tuple[SourcedValue, ...]
    doc: str


class Fact(NamedTuple):
    """What Kafka has as a config and this broker works out."""

    kind: ConfigType
    value: str


def broker_entries(
    config: Any, facts: Mapping[str, Fact], defaults: TopicDefaults
) -> list[BrokerEntry]:
    """Return the configs of a broker, sorted by name.

    `config`: its settings tree. `facts`: what Kafka calls configs and is worked out here, such as
    `advertised.listeners`.
    """
    entries = {entry.name: entry for entry in _own(config)}
    for name, fact in facts.items():
        entries[name] = _entry(name, fact.kind, fact.value, None, "")
    for topic_config in TOPIC_CONFIGS.values():
        for synonym in topic_config.synonyms:
            entries[synonym.name] = _topic_default(topic_config, synonym, defaults)
    return [entries[name] for name in sorted(entries)]


def _own(config: Any) -> Iterator[BrokerEntry]:
    values = values_of(config)
    for leaf in settings_of(type(config)):
        value, default = values[leaf.key], leaf.default
        kind = _kind(leaf.kind, value)
        given = None if value == default else shown(value)
        yield _entry(leaf.key, kind, given, shown(default), leaf.doc)


def _topic_default(config: TopicConfig, synonym: Synonym, defaults: TopicDefaults) -> BrokerEntry:
    default = None
    if synonym == config.synonyms[-1] and config.default is not None:
        value = config.default // synonym.unit_ms if synonym.unit_ms > 1 else config.default
        default = text_of(value)
    return _entry(synonym.name, config.kind, defaults.given.get(synonym.name), default, config.doc)


def _entry(
    name: str, kind: ConfigType, given: str | None, default: str | None, doc: str
) -> BrokerEntry:
    places = []
    if given is not None:
        places.append(SourcedValue(name, given, ConfigSource.STATIC_BROKER))
    if default is not None:
        places.append(SourcedValue(name, default, ConfigSource.DEFAULT))
    value = places[0].value if places else None
    source = places[0].source if places else ConfigSource.DEFAULT
    return BrokerEntry(name, value, kind, source, tuple(places), doc)


def _kind(annotation: Any, value: Any) -> ConfigType:
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > INT_MAX:
        return ConfigType.LONG
    return next((_KINDS[part] for part in _parts(annotation) if part in _KINDS), ConfigType.STRING)


def _parts(annotation: Any) -> Iterator[Any]:
    origin = typing.get_origin(annotation)
    if origin in (typing.Union, UnionType, typing.Annotated):
        for argument in typing.get_args(annotation):
            yield from _parts(argument)
    else:
        yield origin or annotation


_KINDS: Mapping[Any, ConfigType] = {
    bool: ConfigType.BOOLEAN,
    int: ConfigType.INT,
    float: ConfigType.DOUBLE,
    str: ConfigType.STRING,
    tuple: ConfigType.LIST,
}
