"""The settings of the process that `start` runs, and that the inspecting commands look at."""

import os
from collections.abc import Sequence
from pathlib import Path

from broker.cli.errors import CliError, Exit
from broker.standalone_config import StandaloneConfig
from core.runtime.config import (
    Assignment,
    ConfigError,
    Loaded,
    from_arguments,
    from_environment,
    from_toml,
    load,
)

CLIENT_VARIABLES = ("TAILRACE_BOOTSTRAP",)
"""Variables of the other commands; no settings of a broker."""


def load_settings(
    config: Path | None,
    assignments: Sequence[str] = (),
    options: Sequence[Assignment] = (),
) -> Loaded[StandaloneConfig]:
    """Load defaults < file < environment < --set < options. Errors: CliError."""
    try:
        given = [
            *(from_toml(config) if config else ()),
            *from_environment(StandaloneConfig, os.environ, CLIENT_VARIABLES),
            *from_arguments(assignments),
            *options,
        ]
        return load(StandaloneConfig, given)
    except ConfigError as error:
        raise CliError(
            str(error),
            remedy="tailrace start --show-config lists every setting",
            code=Exit.USAGE,
        ) from error


def data_option(data: Path | None) -> list[Assignment]:
    """Return what `--data` sets."""
    return [] if data is None else [Assignment("data", str(data), f"--data {data}")]
