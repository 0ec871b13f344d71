"""Log lines for operators and programs: time, level, logger, event name, key=value pairs.

Written to stderr, so that a command's output stays its own. Call sites write
`logger.info("segment_completed log=%s lssn=%d", name, lssn)`: the event first, then its values in a
fixed order.
"""

import logging
import sys
import time
from typing import Final, Literal, TextIO, TypeAlias, get_args

from typing_extensions import override

LogLevel: TypeAlias = Literal["debug", "info", "warning", "error"]
LEVELS: Final[tuple[str, ...]] = get_args(LogLevel)
_FORMAT: Final = "%(asctime)s %(levelname)-7s %(name)s %(message)s"


class _LineFormatter(logging.Formatter):
    """UTC with milliseconds; a traceback is indented, so that a line that starts is an event."""

    converter = staticmethod(time.gmtime)
    default_time_format = "%Y-%m-%dT%H:%M:%S"
    default_msec_format = "%s.%03dZ"

    @override
    def format(self, record: logging.LogRecord) -> str:
        return super().format(record).replace("\n", "\n    ")


def set_up_logging(level: str = "info", stream: TextIO | None = None) -> None:
    """Send all log lines to `stream` (stderr). Calling it again replaces what it set up before.

    Errors: ValueError for a level that is none of LEVELS.
    """
    if level not in LEVELS:
        raise ValueError(f"log level {level!r}: one of {', '.join(LEVELS)}")
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(_LineFormatter(_FORMAT))
    handler.set_name("tailrace")
    root = logging.getLogger()
    for former in [h for h in root.handlers if h.get_name() == "tailrace"]:
        root.removeHandler(former)
    root.addHandler(handler)
    root.setLevel(level.upper())
    logging.getLogger("asyncio").setLevel("WARNING")  # its debug lines tell of every poll
