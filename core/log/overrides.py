"""Settings that one log may have of its own. Pure. Source: reference DistributedLog 10."""

from collections.abc import Mapping
from typing import Final

from tailrace.core.log.config import LogConfig
from tailrace.core.runtime.config import Assignment, ConfigError, load, nearest, values_of

OVERRIDABLE: Final = (
    "positionGapDetectionEnabled",
    "readerIdleErrorThresholdMillis",
    "readerIdleWarnThresholdMillis",
    "periodicFlushFrequencyMilliSeconds",
    "enableImmediateFlush",
    "bkcEnsembleSize",
    "bkcWriteQuorumSize",
    "bkcAckQuorumSize",
    "log.min.regions.for.durability",
)
"""DistributedLog's own list, and what Tailrace adds: the copies of a log."""


def with_overrides(config: LogConfig, overrides: Mapping[str, str], log: str) -> LogConfig:
    """Return the settings of one log: its own, else those of its namespace.

    Errors: ConfigError for a key that a log cannot have of its own, with the nearest one that it
    can; for a value that is none; for values that do not go together.
    """
    if not overrides:
        return config  # most logs: they share one
    own = []
    for key, value in overrides.items():
        if key not in OVERRIDABLE:
            raise ConfigError(f"{key} cannot be set for log {log}{nearest(key, OVERRIDABLE)}")
        own.append(Assignment(key, value, f"log {log}"))
    inherited = [Assignment(key, value, "namespace") for key, value in values_of(config).items()]
    return load(LogConfig, [*inherited, *own]).config
