"""Where settings come from: a TOML file, the environment, arguments."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tailrace.core.runtime.config import (
    ENVIRONMENT_PREFIX,
    Assignment,
    ConfigError,
    environment_name,
    nearest,
    settings_of,
)

# What Kubernetes puts into the environment of a pod beside a service named "tailrace...".
_SERVICE_LINK = re.compile(
    r"_SERVICE_(HOST|PORT(_\w+)?)$|_PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)$"
)


def from_toml(path: Path) -> list[Assignment]:
    """Read a TOML file; tables and dotted keys both spell dotted names. Errors: ConfigError."""
    import tomllib  # 7 ms that a start without a file need not spend

    try:
        tree = tomllib.loads(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"cannot read the configuration {path}: {error}") from error
    return [Assignment(key, value, str(path)) for key, value in _flatten(tree)]


def from_environment(
    config: type, environ: Mapping[str, str], others: Collection[str] = ()
) -> list[Assignment]:
    """Read the TAILRACE_* variables. `others`: variables of that name that are no settings.

    Errors: ConfigError for one that no setting has.
    """
    by_name = {environment_name(leaf.key): leaf.key for leaf in settings_of(config)}
    given = sorted(name for name in environ if name.startswith(ENVIRONMENT_PREFIX))
    assignments = []
    for name in given:
        if name in others or _is_service_address(name, environ[name]):
            continue
        if name in by_name:
            assignments.append(Assignment(by_name[name], environ[name], f"environment {name}"))
        elif not _SERVICE_LINK.search(name):
            hint = nearest(name, by_name)
            raise ConfigError(f"unknown setting {name} in the environment{hint}")
    return assignments


def from_arguments(arguments: Sequence[str], option: str = "--set") -> list[Assignment]:
    """Read `key=value` arguments. Errors: ConfigError for one without a `=`."""
    assignments = []
    for argument in arguments:
        key, equals, value = argument.partition("=")
        if not equals or not key.strip():
            raise ConfigError(f"{option} {argument}: expected key=value")
        assignments.append(Assignment(key.strip(), value.strip(), f"{option} {argument}"))
    return assignments


def _flatten(tree: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in tree.items():
        if isinstance(value, dict):
            yield from _flatten(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def _is_service_address(name: str, value: str) -> bool:
    """Tell TAILRACE_PORT=tcp://10.0.0.1:9092 of Kubernetes from a port that somebody set."""
    return name.endswith("_PORT") and value.startswith(("tcp://", "udp://", "sctp://"))
