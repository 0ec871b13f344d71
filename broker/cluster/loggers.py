"""The process' loggers as Kafka's BROKER_LOGGER resources: their levels, seen and changed.

Nothing is stored: as in Kafka, a level lasts until the process ends.
Source: org.apache.kafka.server.logger.LoggingController, RuntimeLoggerManager.
"""

import logging
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from tailrace.broker.cluster.alterations import Alteration, ConfigOp
from tailrace.broker.errors import KafkaError
from tailrace.protocol.errors import ErrorCode

ROOT: Final = "root"

LEVELS: Final[Mapping[str, int]] = MappingProxyType(
    {
        "DEBUG": logging.DEBUG,
        "ERROR": logging.ERROR,
        "FATAL": logging.CRITICAL,
        "INFO": logging.INFO,
        "TRACE": 5,
        "WARN": logging.WARNING,
    }
)
"""Kafka's names."""


def logger_levels() -> dict[str, str]:
    """Return the level in force of every logger that exists, by name, sorted."""
    root = logging.getLogger()
    found = {name: logging.getLogger(name) for name in _names()}
    return {ROOT: _shown(root), **{name: _shown(found[name]) for name in sorted(found)}}


def alter_levels(changes: Sequence[Alteration], *, validate_only: bool) -> None:
    """Change levels, all or none; DELETE leaves a logger to its parent. Errors: KafkaError."""
    for change in changes:
        _check(change)
    if validate_only:
        return
    for change in changes:
        level = LEVELS[change.value or ""] if change.op is ConfigOp.SET else logging.NOTSET
        logging.getLogger(None if change.name == ROOT else change.name).setLevel(level)


def _check(change: Alteration) -> None:
    if change.op not in (ConfigOp.SET, ConfigOp.DELETE):
        message = f"{change.op.name} operation is not allowed for the BROKER_LOGGER resource"
        raise KafkaError(ErrorCode.INVALID_REQUEST, message)
    if change.name != ROOT and change.name not in _names():
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"Logger {change.name} does not exist!")
    if change.op is ConfigOp.DELETE and change.name == ROOT:
        message = "Removing the log level of the root logger is not allowed"
        raise KafkaError(ErrorCode.INVALID_REQUEST, message)
    if change.op is ConfigOp.SET and change.value not in LEVELS:
        message = (
            f"Cannot set the log level of {change.name} to {change.value} as it is not a supported "
            f"log level. Valid log levels are {', '.join(LEVELS)}"
        )
        raise KafkaError(ErrorCode.INVALID_CONFIG, message)


def _names() -> set[str]:
    known = logging.root.manager.loggerDict
    return {name for name, found in known.items() if isinstance(found, logging.Logger)}


def _shown(found: logging.Logger) -> str:
    """Return the nearest of Kafka's levels that lets no more through."""
    level = found.getEffectiveLevel()
    fitting = [name for name, value in LEVELS.items() if value >= level]
    return min(fitting, key=LEVELS.__getitem__, default="FATAL")
