"""How the commands come to bookies: by the settings of the processes, under the same names."""

import os
from pathlib import Path
from typing import Final

from tailrace.core.ledger.config import BookieClientConfig
from tailrace.core.runtime.config import ConfigError, environment_name, load, settings_of
from tailrace.core.runtime.config_sources import from_environment, from_toml
from tailrace.tools.errors import CliError, Exit

CONFIG_VARIABLE: Final = "TAILRACE_BOOKIE_CLIENT_CONFIG"
"""Names a file with settings, as a broker's `--config`; settings of something else are passed."""


def bookie_settings() -> BookieClientConfig:
    """Return timeouts, TLS and credentials for bookies: file < environment. Errors: CliError."""
    file = os.environ.get(CONFIG_VARIABLE, "")
    keys = {leaf.key for leaf in settings_of(BookieClientConfig)}
    variables = {environment_name(key) for key in keys}
    own = {name: value for name, value in os.environ.items() if name in variables}
    try:
        given = [each for each in from_toml(Path(file)) if each.key in keys] if file else []
        given += from_environment(BookieClientConfig, own)
        return load(BookieClientConfig, given).config
    except ConfigError as error:
        place = CONFIG_VARIABLE if file else ""
        raise CliError(str(error), place=place, code=Exit.USAGE) from error
