"""The configs that a single group can have, and what they come to with the broker's own. Pure.

Those of consumer groups (KIP-848). Kafka 4.3 also has some for share and streams groups, which are
not served here, so their names are unknown. Source: org.apache.kafka.coordinator.group.GroupConfig.
"""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from broker.cluster.alterations import Changes, altered
from broker.cluster.config_def import ConfigType, InvalidConfig, at_least, parse, refuse, text_of
from broker.cluster.settings import ConfigSource, SourcedValue


class GroupConfigs(NamedTuple):
    """What holds for one consumer group. Unit: ms."""

    session_timeout_ms: int
    heartbeat_interval_ms: int
    assignment_interval_ms: int


class _Known(NamedTuple):
    least: int
    doc: str
    broker_default: int
    broker_min: int
    broker_max: int


_BROKER: Final = "group."
"""A group's config, its least and largest value are broker configs: group.consumer.[min.]..."""

GROUP_CONFIGS: Final[Mapping[str, _Known]] = MappingProxyType(
    {
        "consumer.session.timeout.ms": _Known(
            1, "How long a member may be silent before it is taken for dead.",
            45_000, 45_000, 60_000,
        ),
        "consumer.heartbeat.interval.ms": _Known(
            1, "How often members are told to send a heartbeat.", 5_000, 5_000, 15_000
        ),
        "consumer.assignment.interval.ms": _Known(
            0, "Least time between two assignments of the group.", 1_000, 0, 15_000
        ),
    }
)  # fmt: skip
"""The numbers are Kafka's, and hold where the broker has no such setting."""


class GroupEntry(NamedTuple):
    """One config of a group as it is in force."""

    name: str
    value: str
    synonyms: tuple[SourcedValue, ...]
    """The one in force first."""
    doc: str


def group_configs(overrides: Mapping[str, str], broker: Mapping[str, Any]) -> GroupConfigs:
    """Return what holds for a group. `broker`: the broker's settings by name."""
    return GroupConfigs(*(_value(name, overrides, broker) for name in GROUP_CONFIGS))


def group_entries(overrides: Mapping[str, str], broker: Mapping[str, Any]) -> Iterator[GroupEntry]:
    """Describe all configs of a group."""
    for name, known in GROUP_CONFIGS.items():
        default = SourcedValue(
            f"{_BROKER}{name}", str(_broker_value(name, broker)), _broker_source(name, broker)
        )
        places = [default]
        if name in overrides:
            places.insert(0, SourcedValue(name, overrides[name], ConfigSource.GROUP))
        yield GroupEntry(name, places[0].value, tuple(places), known.doc)


def altered_group(
    overrides: Mapping[str, str], changes: Changes, broker: Mapping[str, Any]
) -> dict[str, str]:
    """Return a group's configs after the changes, in canonical text. Errors: InvalidConfig."""
    result = altered(overrides, changes, lambda _name: None)
    for name in sorted(result):
        if name not in GROUP_CONFIGS:
            raise InvalidConfig(f"Unknown group config name: {name}")
    stored = {name: text_of(_parsed(name, text or "")) for name, text in sorted(result.items())}
    for name in GROUP_CONFIGS:
        _check_range(name, _value(name, stored, broker), broker)
    holds = group_configs(stored, broker)
    if holds.session_timeout_ms <= holds.heartbeat_interval_ms:
        raise InvalidConfig(
            "consumer.session.timeout.ms must be greater than consumer.heartbeat.interval.ms"
        )
    return stored


def _parsed(name: str, text: str) -> int:
    value: int = parse(name, ConfigType.INT, text)
    why = at_least(GROUP_CONFIGS[name].least)(value)
    if why:
        raise refuse(name, value, why)
    return value


def _check_range(name: str, value: int, broker: Mapping[str, Any]) -> None:
    known = GROUP_CONFIGS[name]
    least, most = _bound(name, "min"), _bound(name, "max")
    if value < broker.get(least, known.broker_min):
        raise InvalidConfig(f"{name} must be greater than or equal to {least}")
    if value > broker.get(most, known.broker_max):
        raise InvalidConfig(f"{name} must be less than or equal to {most}")


def _bound(name: str, which: str) -> str:
    """Return the broker config that bounds a group's: group.consumer.min.session.timeout.ms."""
    kind, _, rest = name.partition(".")
    return f"{_BROKER}{kind}.{which}.{rest}"


def _value(name: str, overrides: Mapping[str, str], broker: Mapping[str, Any]) -> int:
    return int(overrides[name]) if name in overrides else _broker_value(name, broker)


def _broker_value(name: str, broker: Mapping[str, Any]) -> int:
    return int(broker.get(f"{_BROKER}{name}", GROUP_CONFIGS[name].broker_default))


def _broker_source(name: str, broker: Mapping[str, Any]) -> ConfigSource:
    is_default = _broker_value(name, broker) == GROUP_CONFIGS[name].broker_default
    return ConfigSource.DEFAULT if is_default else ConfigSource.STATIC_BROKER
