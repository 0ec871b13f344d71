"""What a config value may be: Kafka's types, their text forms, and checks. Pure.

Text in, typed value out; the same words as Kafka's for what is refused.
Source: org.apache.kafka.common.config.ConfigDef.
"""

import re
from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import Any, TypeAlias

INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1

Check: TypeAlias = Callable[[Any], str | None]
"""Return why a typed value is not allowed, or None."""


class ConfigType(IntEnum):
    """Type of a config as DescribeConfigs names it."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class InvalidConfig(Exception):
    """A config name or value that is refused; the message is for the client."""


_WHOLE = {
    ConfigType.SHORT: 2**15 - 1,
    ConfigType.INT: INT_MAX,
    ConfigType.LONG: LONG_MAX,
}


def parse(name: str, kind: ConfigType, text: str) -> Any:
    """Return the typed value of a text. Errors: InvalidConfig."""
    text = text.strip()
    if kind in _WHOLE:
        return _parse_whole(name, kind, text)
    if kind is ConfigType.DOUBLE:
        return _parse_double(name, text)
    if kind is ConfigType.BOOLEAN:
        return _parse_boolean(name, text)
    if kind is ConfigType.LIST:
        return tuple(item.strip() for item in text.split(",")) if text else ()
    return text


def text_of(value: Any) -> str:
    """Return a typed value as text, as DescribeConfigs shows it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ",".join(value)
    return str(value)


def at_least(minimum: float) -> Check:
    """Check a lower bound. Shape: inclusive."""
    return lambda value: f"Value must be at least {minimum}" if value < minimum else None


def between(minimum: float, maximum: float) -> Check:
    """Check two bounds. Shape: both inclusive."""

    def check(value: Any) -> str | None:
        if value < minimum:
            return f"Value must be at least {minimum}"
        return f"Value must be no more than {maximum}" if value > maximum else None

    return check


def one_of(*allowed: str) -> Check:
    """Check that a string is one of a closed set."""
    words = ", ".join(allowed)
    return lambda value: None if value in allowed else f"String must be one of: {words}"


def list_of(*allowed: str) -> Check:
    """Check that each item of a list is one of a closed set."""
    item = one_of(*allowed)
    return lambda values: next(filter(None, map(item, values)), None)


def refuse(name: str, value: object, why: str) -> InvalidConfig:
    """Return the error for a value, in Kafka's form."""
    return InvalidConfig(f"Invalid value {_shown(value)} for configuration {name}: {why}")


def _shown(value: object) -> str:
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "[" + ", ".join(map(str, value)) + "]"
    return text_of(value)


def _parse_whole(name: str, kind: ConfigType, text: str) -> int:
    limit = _WHOLE[kind]
    if re.fullmatch(r"[+-]?[0-9]{1,20}", text):
        value = int(text)
        if -limit - 1 <= value <= limit:
            return value
    raise refuse(name, text, f"Not a number of type {kind.name}")


def _parse_double(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise refuse(name, text, "Not a number of type DOUBLE") from error


def _parse_boolean(name: str, text: str) -> bool:
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    raise refuse(name, text, "Expected value to be either true or false")
