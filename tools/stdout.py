"""Standard output, and what a command ends with when it cannot be written.

Failures of it leave as exceptions of their own, which no handler of OSError along the way (for
files, for sockets) can take for its own.
"""

import io
import os
import sys
from typing import TYPE_CHECKING

from typing_extensions import override

from tailrace.tools.errors import CliError

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_FILENO = 1


class ReaderGone(Exception):
    """Whoever read our output has enough of it."""


class _Stdout(io.FileIO):
    """The file behind `sys.stdout`. Errors: ReaderGone, CliError."""

    @override
    def write(self, data: "ReadableBuffer", /) -> int:
        try:
            return super().write(data)
        except BrokenPipeError as error:
            raise ReaderGone from error
        except OSError as error:
            raise CliError(
                f"cannot write: {error.strerror}",
                place="standard output",
                remedy="make room, or let it go elsewhere; what came out is not all",
            ) from error


def take_stdout() -> None:
    """Let `sys.stdout` fail as said above. One that is closed takes all and keeps nothing."""
    if sys.stdout is None:  # a daemon's
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115  (it lives as long as the process)
        return
    sys.stdout = io.TextIOWrapper(
        io.BufferedWriter(_Stdout(_FILENO, "w", closefd=False)),
        encoding=sys.stdout.encoding,
        errors=sys.stdout.errors,
        line_buffering=bool(sys.stdout.line_buffering),
    )


def drop_stdout() -> None:
    """Forget what could not be written: Python would try again, and complain, at its own exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), _FILENO)
