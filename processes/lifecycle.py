"""The life of a process: it opens, serves until it should end, closes, and says what went wrong.

All processes run by `run_process`; what differs is what they open, what they print when they are
ready, and what is to be done about a start that failed.
"""

import asyncio
import logging
import signal
import sys
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import uvloop

from tailrace.core.runtime.collector import settle_collector
from tailrace.core.runtime.config import ConfigError
from tailrace.core.runtime.heap import keep_freed_memory
from tailrace.core.runtime.logging_setup import LogLevel, set_up_logging

logger = logging.getLogger(__name__)

T = TypeVar("T")

CREDENTIALS: Final = (
    "check zookeeper.auth.username and zookeeper.auth.password, and whom the ACLs there name "
    "(docs/operations/security.md)"
)
"""The remedy where ZooKeeper refuses a process."""
_WRONG_CONFIGURATION: Final = 2
"""Exit code, as that of a command line that is wrong."""


@dataclass(frozen=True, slots=True)
class Serving:
    """What a process that is open prints, and what ends it besides a signal."""

    ready: str
    """Lines for stdout once it serves; the last one begins with `ready: `."""
    failures: Mapping[asyncio.Future[Any], str]
    """Each ends the process with code 1 when it is done. Its text is logged, with its result if
    that is an error; an empty one has been logged by what failed."""


@dataclass(frozen=True, slots=True)
class Remedies:
    """What to do about a start that failed."""

    by_kind: Mapping[type[Exception], str]
    """The errors that a start may end by. The first kind that an error is of names its remedy; an
    empty one stands for `otherwise`."""
    otherwise: str

    def of(self, error: Exception) -> str:
        """Return the remedy for an error."""
        for kind, remedy in self.by_kind.items():
            if isinstance(error, kind):
                return remedy or self.otherwise
        return self.otherwise


def run_process(
    process: AbstractAsyncContextManager[T],
    serving: Callable[[T], Serving],
    remedies: Remedies,
    log_level: LogLevel,
) -> int:
    """Run a process until SIGTERM, SIGINT or a failure of its own; return its exit code.

    The ready lines go to stdout. A start that fails by an error that `remedies` names prints cause
    and remedy on stderr and returns 1, one by its configuration 2; any other error is a bug, and is
    raised.
    """
    set_up_logging(log_level)

    async def serve(running: T, stop: asyncio.Event) -> int:
        return await serve_until(serving(running), stop)

    try:
        return uvloop.run(run_until_signal(process, serve))
    except ConfigError as error:
        sys.stderr.write(f"error: {error}\n  try: {error.remedy or remedies.otherwise}\n")
        return _WRONG_CONFIGURATION
    except tuple(remedies.by_kind) as error:
        sys.stderr.write(f"error: {_cause(error)}\n  try: {remedies.of(error)}\n")
        return 1


async def serve_until(serving: Serving, stop: asyncio.Event) -> int:
    """Print the ready lines; return 0 once `stop` is set, 1 once one of the failures is done."""
    for failure in serving.failures:
        failure.add_done_callback(lambda _: stop.set())
    settle_collector()
    keep_freed_memory()
    sys.stdout.write(serving.ready)
    sys.stdout.flush()
    await stop.wait()
    failed = [each for each in serving.failures if each.done()]
    for failure in failed:
        _log(serving.failures[failure], failure.result())
    return 1 if failed else 0


async def run_until_signal(
    process: AbstractAsyncContextManager[T],
    serve: Callable[[T, asyncio.Event], Awaitable[int]],
) -> int:
    """Open `process`, let `serve` run until its event is set, close; return what `serve` returned.

    The event is set by SIGTERM and SIGINT; `serve` may set it too. A signal during the start, which
    may take long, gives the start up: 0 is returned. Errors: those of the process.
    """
    stop, is_ready = asyncio.Event(), False
    loop, starting = asyncio.get_running_loop(), asyncio.current_task()
    assert starting is not None, "it is awaited in a task"

    def end() -> None:
        stop.set()
        if not is_ready:
            starting.cancel()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, end)
    try:
        async with process as running:
            is_ready = True
            return await serve(running, stop)
    except asyncio.CancelledError:
        if not stop.is_set():
            raise
        return 0


def _cause(error: Exception) -> object:
    """Return an error in words; one of the system without its number."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return error


def _log(text: str, result: object) -> None:
    if not text:
        return
    if isinstance(result, Exception):
        logger.error("%s error=%r", text, result)
    else:
        logger.error("%s", text)
