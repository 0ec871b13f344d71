"""The end of a broker's log."""

from pathlib import Path
from typing import Final

LOG_BYTES_MAX: Final = 1024 * 1024


def tail(path: Path) -> str:
    """Return the last MiB of a log; nothing if there is none yet."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - LOG_BYTES_MAX))
            return file.read().decode(errors="replace")
    except FileNotFoundError:  # nothing was started yet
        return ""
