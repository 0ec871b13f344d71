"""The configs that a single group can have, and what they come to with the broker's own. Pure.

Those of consumer groups (KIP-848). Kafka 4.3 also has some for share and streams groups, which are
not served here, so their names are unknown. Source: org.apache.kafka.coordinator.group.GroupConfig.
"""

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from tailrace.broker.cluster.alterations import Changes, altered
from tailrace.broker.cluster.config_def import (
    ConfigType,
    InvalidConfig,
    at_least,
    parse,
    refuse,
    text_of,
)
from tailrace.broker.cluster.settings import ConfigSource, SourcedValue


class GroupConfigs(NamedTuple):
    """What holds for one consumer group. Unit: ms."""

    session_timeout_ms: int
    heartbeat_interval_ms: int
    assignment_interval_ms: int


class _Known(NamedTuple):
    least: int
    doc: str


_BROKER: Final = "group."
"""A group's config, its least and largest value are broker configs: group.consumer.[min.]..."""

GROUP_CONFIGS: Final[Mapping[str, _Known]] = MappingProxyType(
    {
        "consumer.session.timeout.ms": _Known(
            1, "How long a member may be silent before it is taken for dead."
        ),
        "consumer.heartbeat.interval.ms": _Known(
            1, "How often members are told to send a heartbeat."
        ),
        "consumer.assignment.interval.ms": _Known(
            0, "Least time between two assignments of the group."
        ),
    }
)  # fmt: skip
"""Each also has a broker config for its default, its least and its largest value."""


class GroupEntry(NamedTuple):
    """One config of a group as it is in force."""

    name: str
    value: str
    synonyms: tuple[SourcedValue, ...]
    """The one in force first."""
    doc: str


def broker_name(name: str) -> str:
    """Return the broker config that gives a group's config its default."""
    return f"{_BROKER}{name}"


def group_configs(overrides: Mapping[str, str], broker: Mapping[str, Any]) -> GroupConfigs:
    """Return what holds for a group. `broker`: the broker's settings by name."""
    return GroupConfigs(*(_value(name, overrides, broker) for name in GROUP_CONFIGS))


def group_entries(
    overrides: Mapping[str, str], broker: Mapping[str, Sequence[SourcedValue]]
) -> Iterator[GroupEntry]:
    """Describe all configs of a group. `broker`: where the broker's have their values, by name."""
    for name, known in GROUP_CONFIGS.items():
        places = [*broker[broker_name(name)]]
        if name in overrides:
            places.insert(0, SourcedValue(name, overrides[name], ConfigSource.GROUP))
        yield GroupEntry(name, places[0].value or "", tuple(places), known.doc)


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
    least, most = _bound(name, "min"), _bound(name, "max")
    if value < broker[least]:
        raise InvalidConfig(f"{name} must be greater than or equal to {least}")
    if value > broker[most]:
        raise InvalidConfig(f"{name} must be less than or equal to {most}")


def _bound(name: str, which: str) -> str:
    """Return the broker config that bounds a group's: group.consumer.min.session.timeout.ms."""
    kind, _, rest = name.partition(".")
    return f"{_BROKER}{kind}.{which}.{rest}"


def _value(name: str, overrides: Mapping[str, str], broker: Mapping[str, Any]) -> int:
    return int(overrides[name] if name in overrides else broker[broker_name(name)])
