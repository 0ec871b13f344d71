"""What is left of a world when its schedule is over: tasks that were never finished.

Dropped, they would be finalised whenever something that keeps them goes (a traceback keeps frames,
and with them whole processes): behind the world's end, on a loop that is closed, in the middle of
the next seed. So they are ended here, while nobody listens, and what could not be is told.
"""

import asyncio
import contextlib
import inspect
import logging
import sys
from collections.abc import Iterator
from typing import Any, Final

from typing_extensions import override

from tailrace.simulation.loop import SimLoop

CLOSES_MAX: Final = 50
"""How often one coroutine may wait again while it is being closed."""


def end_what_is_left(loop: SimLoop) -> list[str]:
    """Close the coroutines of unfinished tasks, in the order of their making; tell who goes on.

    What they raise is nothing: whose they are died, and would have had no time for it.
    """
    left: list[asyncio.Task[Any]] = []
    asyncio._set_running_loop(loop)  # what waits again must wait, not fail and go round in circles
    try:
        # In rounds: what is closed may begin something else. A SimTask's hash is its number.
        while more := sorted(asyncio.all_tasks(loop).difference(left), key=hash):
            left += more
            for task in more:
                task._log_destroy_pending = False  # type: ignore[attr-defined]
                _close(task.get_coro())
    finally:
        asyncio._set_running_loop(None)
    return [
        f"the simulation could not end {task.get_name()}: it catches everything"
        for task in left
        if inspect.getcoroutinestate(task.get_coro()) != inspect.CORO_CLOSED  # type: ignore[arg-type]
    ]


def _close(coroutine: Any) -> None:
    if inspect.getcoroutinestate(coroutine) == inspect.CORO_CREATED:
        for handed in coroutine.cr_frame.f_locals.values():  # what it never came to await
            if inspect.iscoroutine(handed):
                handed.close()
    for _ in range(CLOSES_MAX):
        with contextlib.suppress(BaseException):
            coroutine.close()
        if inspect.getcoroutinestate(coroutine) == inspect.CORO_CLOSED:
            return


class _Ear(logging.Handler):
    def __init__(self, heard: list[str]) -> None:
        super().__init__(logging.ERROR)
        self.heard = heard

    @override
    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        self.heard.append(f"{record.getMessage()} {error!r}")


@contextlib.contextmanager
def nothing_said_afterwards() -> Iterator[list[str]]:
    """Hear, in a list, errors that are logged in the block, or that finalisers raise.

    For the time before and after a world, which hears its own.
    """
    heard: list[str] = []
    root, hook, ear = logging.getLogger(), sys.unraisablehook, _Ear(heard)
    root.addHandler(ear)
    sys.unraisablehook = lambda raised: heard.append(f"unraisable: {raised.exc_value!r}")
    try:
        yield heard
    finally:
        sys.unraisablehook = hook
        root.removeHandler(ear)
