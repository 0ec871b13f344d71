"""What DescribeConfigs says about a broker: its settings, and the defaults that topics get. Pure.

Every setting of the process under the name that users write, the names that Kafka's tools look for,
and the broker-level names of topic configs with the value in force. What cannot change while the
broker runs (`dynamic_rules`) is read-only.
"""

import typing
from collections.abc import Container, Iterator, Mapping, Sequence
from types import MappingProxyType, UnionType
from typing import Any, Final, NamedTuple

from tailrace.broker.cluster.config_def import INT_MAX, ConfigType
from tailrace.broker.cluster.dynamic_rules import INERT, is_dynamic
from tailrace.broker.cluster.settings import ConfigSource, Layer, SourcedValue, TopicDefaults
from tailrace.broker.cluster.topic_configs import TOPIC_CONFIGS, Synonym, TopicConfig
from tailrace.core.runtime.config import (
    Secret,
    Setting,
    setting_below,
    settings_in,
    shown,
    values_of,
)


class BrokerEntry(NamedTuple):
    """One broker config as it is in force."""

    name: str
    value: str | None
    kind: ConfigType
    synonyms: tuple[SourcedValue, ...]
    """The one in force first."""
    doc: str
    read_only: bool


class Fact(NamedTuple):
    """What Kafka has as a config and this broker works out."""

    kind: ConfigType
    value: str
    doc: str = ""


WITHOUT_EFFECT: Final[Mapping[str, Fact]] = MappingProxyType(
    {
        "replica.fetch.max.bytes": Fact(
            ConfigType.INT, "1048576", "Of no effect: brokers fetch nothing from each other."
        ),
        "replica.lag.time.max.ms": Fact(
            ConfigType.LONG, "30000", "Of no effect: what is acknowledged is on its ack quorum."
        ),
        "request.timeout.ms": Fact(
            ConfigType.INT, "30000", "Of no effect: brokers send no requests to each other."
        ),
    }
)
"""What programs look for: Kafka's defaults, read-only."""


def broker_entries(
    config: Any, facts: Mapping[str, Fact], defaults: TopicDefaults
) -> list[BrokerEntry]:
    """Return the configs of a broker, sorted by name.

    `config`: its settings tree as it was started. `facts`: what Kafka calls configs and is worked
    out here, such as `advertised.listeners`. `defaults`: knows what was given while it runs.
    """
    entries = {entry.name: entry for entry in _own(config, defaults.layers)}
    for name, fact in facts.items():
        source = (SourcedValue(name, fact.value, ConfigSource.STATIC_BROKER),)
        entries[name] = BrokerEntry(name, fact.value, fact.kind, source, fact.doc, read_only=True)
    for name, fact in WITHOUT_EFFECT.items():
        default = SourcedValue(name, fact.value, ConfigSource.DEFAULT)
        entries[name] = _entry(name, fact.kind, (default,), fact.doc)
    for topic_config in TOPIC_CONFIGS.values():
        for synonym in topic_config.synonyms:
            entries[synonym.name] = _topic_default(topic_config, synonym, defaults)
    for name, inert in INERT.items():
        given = _given(name, defaults.layers)
        if given:
            entries[name] = _entry(name, inert.setting.kind, given, inert.doc)
    return [entries[name] for name in sorted(entries)]


def _own(config: Any, layers: Sequence[Layer]) -> Iterator[BrokerEntry]:
    values = values_of(config)
    for leaf in [*settings_in(config), *_given_only(type(config), values, layers[:-1])]:
        value, default = values.get(leaf.key), leaf.default
        places = _given(leaf.key, layers[:-1])
        if leaf.kind is Secret:
            places = [place._replace(value=None) for place in places]
        if value != default:
            places.append(SourcedValue(leaf.key, _text(value), ConfigSource.STATIC_BROKER))
        if default is not None:
            places.append(SourcedValue(leaf.key, _text(default), ConfigSource.DEFAULT))
        yield _entry(leaf.key, _kind(leaf.kind, value), places, leaf.doc)


def _given_only(config: type, known: Container[str], layers: Sequence[Layer]) -> Iterator[Setting]:
    """Yield the settings below a prefix that were given only while the broker runs."""
    for name in sorted({name for layer in layers for name in layer.values}):
        if name not in known and (leaf := setting_below(config, name)) is not None:
            yield leaf


def _text(value: Any) -> str | None:
    return None if isinstance(value, Secret) else shown(value)


def _topic_default(config: TopicConfig, synonym: Synonym, defaults: TopicDefaults) -> BrokerEntry:
    """Describe one broker-level name; the weaker names of the same config are its synonyms."""
    names = [each.name for each in config.synonyms]
    weaker = names[names.index(synonym.name) :]
    places = [place for place in defaults.sources(config, {}) if place.name in weaker]
    while places and places[0].name != synonym.name:
        del places[0]
    return _entry(synonym.name, config.kind, places, config.doc)


def _entry(name: str, kind: ConfigType, places: Sequence[SourcedValue], doc: str) -> BrokerEntry:
    value = places[0].value if places else None
    return BrokerEntry(name, value, kind, tuple(places), doc, read_only=not is_dynamic(name))


def _given(name: str, layers: Sequence[Layer]) -> list[SourcedValue]:
    return [
        SourcedValue(name, layer.values[name], layer.source)
        for layer in layers
        if name in layer.values
    ]


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
    Secret: ConfigType.PASSWORD,
}
