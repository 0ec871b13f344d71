"""Metrics subscriptions (KIP-714): kept and shown. Pure.

They have no effect, as in a Kafka without a plug-in that takes the metrics.
Source: org.apache.kafka.server.metrics.ClientMetricsConfigs.
"""

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from tailrace.broker.cluster.alterations import Changes, altered
from tailrace.broker.cluster.config_def import ConfigType, InvalidConfig, between, parse, text_of
from tailrace.broker.errors import KafkaError
from tailrace.protocol.errors import ErrorCode

_INTERVAL: Final = "interval.ms"
_MATCH: Final = "match"
_INTERVAL_MS: Final = (100, 3_600_000)
_RANGE: Final = "100 and 3600000 (1 hour)"
_SELECTORS: Final = frozenset(
    {
        "client_instance_id",
        "client_id",
        "client_software_name",
        "client_software_version",
        "client_source_address",
        "client_source_port",
    }
)


class MetricsConfig(NamedTuple):
    """One config of a subscription."""

    kind: ConfigType
    default: Any
    doc: str


CLIENT_METRICS_CONFIGS: Final[Mapping[str, MetricsConfig]] = MappingProxyType(
    {
        _INTERVAL: MetricsConfig(ConfigType.INT, 300_000, "How often clients push. Unit: ms."),
        _MATCH: MetricsConfig(ConfigType.LIST, (), "Which clients: selector=regular expression."),
        "metrics": MetricsConfig(ConfigType.LIST, (), "Prefixes of the metrics that are wanted."),
    }
)


def shown_metrics(overrides: Mapping[str, str]) -> Iterator[tuple[str, str, MetricsConfig, bool]]:
    """Yield name, value, config, and whether the value was given."""
    for name, config in CLIENT_METRICS_CONFIGS.items():
        yield name, overrides.get(name, text_of(config.default)), config, name in overrides


def altered_metrics(overrides: Mapping[str, str], changes: Changes) -> dict[str, str]:
    """Return a subscription after the changes, in canonical text.

    Lists are set as a whole, as in Kafka. Errors: InvalidConfig; KafkaError (INVALID_REQUEST).
    """
    result = altered(overrides, changes, lambda _name: None)
    for name in sorted(result):
        if name not in CLIENT_METRICS_CONFIGS:
            message = f"Unknown client metrics configuration: {name}"
            raise KafkaError(ErrorCode.INVALID_REQUEST, message)
    return {name: _canonical(name, text or "") for name, text in sorted(result.items())}


def _canonical(name: str, text: str) -> str:
    value = parse(name, CLIENT_METRICS_CONFIGS[name].kind, text)
    if name == _INTERVAL and between(*_INTERVAL_MS)(value):
        message = f"Invalid value {value} for {name}, interval must be between {_RANGE}"
        raise KafkaError(ErrorCode.INVALID_REQUEST, message)
    if name == _MATCH:
        for pattern in value:
            _check_pattern(pattern)
    return text_of(value)


def _check_pattern(pattern: str) -> None:
    selector, equals, expression = pattern.partition("=")
    try:
        if not equals or "=" in expression or selector.strip() not in _SELECTORS:
            raise InvalidConfig(f"Illegal client matching pattern: {pattern}")
        re.compile(expression.strip())
    except (re.error, RecursionError, OverflowError) as error:
        raise InvalidConfig(f"Illegal client matching pattern: {pattern}") from error
