"""The settings of the processes that commands run, and that the inspecting commands look at."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from tailrace.core.metadata.zookeeper_config import ZookeeperSecurityConfig
from tailrace.core.runtime.config import (
    Assignment,
    ConfigError,
    Loaded,
    environment_name,
    load,
    settings_of,
    shown,
)
from tailrace.core.runtime.config_sources import from_arguments, from_environment, from_toml
from tailrace.tools.errors import CliError, Exit

if TYPE_CHECKING:
    from tailrace.processes.standalone_config import StandaloneConfig

T = TypeVar("T")

CLIENT_VARIABLES = (
    "TAILRACE_ADMIN",
    "TAILRACE_BOOKIE_CLIENT_CONFIG",
    "TAILRACE_BOOTSTRAP",
    "TAILRACE_COMMAND_CONFIG",
    "TAILRACE_METADATA",
    "TAILRACE_NAMESPACE",
    "TAILRACE_ZOOKEEPER_CONFIG",
)
"""Variables of the other commands; no settings of a broker."""


def _nothing(_: Sequence[Assignment]) -> Sequence[Assignment]:
    return ()


def load_settings(
    config: Path | None,
    assignments: Sequence[str] = (),
    options: Sequence[Assignment] = (),
) -> "Loaded[StandaloneConfig]":
    """Load the settings of `tailrace start`. Errors: CliError."""
    from tailrace.processes.secure_config import secure_settings
    from tailrace.processes.standalone_config import (
        StandaloneConfig,  # a bookie's process has no broker
    )

    def before(given: Sequence[Assignment]) -> list[Assignment]:
        """Return what `secure` sets, if it is given; where, is a setting too."""
        chosen = [each for each in given if each.key in ("data", "secure")]
        found = load(StandaloneConfig, chosen).config
        return secure_settings(found.data) if found.secure.enabled else []

    return load_settings_of(
        StandaloneConfig, "tailrace start", config, assignments, options, before=before
    )


def load_settings_of(
    kind: type[T],
    command: str,
    config: Path | None,
    assignments: Sequence[str] = (),
    options: Sequence[Assignment] = (),
    *,
    before: Callable[[Sequence[Assignment]], Sequence[Assignment]] = _nothing,
) -> Loaded[T]:
    """Load defaults < file < environment < --set < options. Errors: CliError names `command`.

    `before` returns, of all that is given, what stands for a default instead.
    """
    try:
        given = [
            *(from_toml(config) if config else ()),
            *from_environment(kind, os.environ, _of_others(kind)),
            *from_arguments(assignments),
            *options,
        ]
        return load(kind, [*before(given), *given])
    except ConfigError as error:
        raise CliError(
            str(error),
            remedy=f"{command} --show-config lists every setting",
            code=Exit.USAGE,
        ) from error


def _of_others(kind: type) -> list[str]:
    """Return the variables that commands take, and that are no settings of this process."""
    own = {leaf.key for leaf in settings_of(kind)}
    zookeeper = (leaf.key for leaf in settings_of(ZookeeperSecurityConfig))
    return [*CLIENT_VARIABLES, *(environment_name(key) for key in zookeeper if key not in own)]


def show_settings(loaded: Loaded[T], *, as_json: bool) -> None:
    """Print every setting with its value, source and meaning."""
    from tailrace.tools.output import Column, show_rows

    rows = [
        {"setting": row.key, "value": shown(row.value), "source": row.origin, "meaning": row.doc}
        for row in loaded.effective()
    ]
    columns = [Column("setting"), Column("value"), Column("source"), Column("meaning")]
    show_rows(rows, columns, as_json=as_json)


def data_option(data: Path | None) -> list[Assignment]:
    """Return what `--data` sets."""
    return [] if data is None else [Assignment("data", str(data), f"--data {data}")]


def secure_option(*, secure: bool) -> list[Assignment]:
    """Return what `--secure` sets."""
    return [Assignment("secure", value=True, origin="--secure")] if secure else []


def insecure_option(*, insecure: bool) -> list[Assignment]:
    """Return what `--insecure` sets."""
    return [Assignment("insecure.listeners", value=True, origin="--insecure")] if insecure else []
