"""What a broker is started with: its command line, its settings, its environment."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

COMMAND: Final = (sys.executable, "-P", "-m", "tailrace")
"""The `tailrace` that is installed beside this module; -P: not what lies in the current folder."""
DEFAULT_SETTINGS: Final[Mapping[str, str]] = {"group.initial.rebalance.delay.ms": "0"}
"""What differs from a broker's own defaults: a test's group need not wait for more members."""
_FAULTS: Final = "127.0.0.1:0"
"""Where it lets itself be broken; it prints which port it took."""
_SETTINGS_PREFIX: Final = "TAILRACE_"


def command_line(
    command: Sequence[str], data: Path, listen: str, settings: Mapping[str, str]
) -> list[str]:
    """Return the words that start a broker over a directory, on a port, with settings."""
    line = [*command, "start", "--data", str(data), "--listen", listen]
    line += ["--test-faults", _FAULTS]
    for name, value in settings.items():
        line += ["--set", f"{name}={value}"]
    return line


def user_command(command: Sequence[str], data: Path, user: str, password_file: Path) -> list[str]:
    """Return the words that make a user of a broker that does not run."""
    place = ["--data", str(data), "--password-file", str(password_file)]
    return [*command, "user", "create", *place, "--replace", "--", user]


def texts(settings: Mapping[str, object]) -> dict[str, str]:
    """Return settings as the command line takes them: true and false as Kafka writes them."""
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in settings.items()
    }


def environment(users: Mapping[str, str]) -> dict[str, str]:
    """Return the user's environment without what would change the broker's settings."""
    return {name: value for name, value in users.items() if not name.startswith(_SETTINGS_PREFIX)}
