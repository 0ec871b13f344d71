"""How the commands come to ZooKeeper: by the settings of the processes, under the same names."""

import os
from pathlib import Path
from typing import Final

from tailrace.core.metadata.zookeeper_config import ZookeeperSecurityConfig
from tailrace.core.runtime.config import ConfigError, load
from tailrace.core.runtime.config_sources import from_environment, from_toml
from tailrace.tools.errors import CliError, Exit

CONFIG_VARIABLE: Final = "TAILRACE_ZOOKEEPER_CONFIG"
"""Names a file with settings, as a broker's `--config`: all that do not begin with `zookeeper.` are
another's."""
_NAMES: Final = "TAILRACE_ZOOKEEPER_"
_KEYS: Final = "zookeeper."

CREDENTIALS: Final = (
    f"set {CONFIG_VARIABLE} to a file with zookeeper.auth.username and zookeeper.auth.password "
    "(docs/operations/security.md)"
)


def zookeeper_settings() -> ZookeeperSecurityConfig:
    """Return credentials and TLS for ZooKeeper: file < environment. Errors: CliError."""
    file = os.environ.get(CONFIG_VARIABLE, "")
    own = {
        name: value
        for name, value in os.environ.items()
        if name.startswith(_NAMES) and name != CONFIG_VARIABLE
    }
    try:
        given = (
            [each for each in from_toml(Path(file)) if each.key.startswith(_KEYS)] if file else []
        )
        return load(
            ZookeeperSecurityConfig, [*given, *from_environment(ZookeeperSecurityConfig, own)]
        ).config
    except ConfigError as error:
        raise CliError(
            str(error), place=CONFIG_VARIABLE if file else "", code=Exit.USAGE
        ) from error
