"""Running a process until somebody ends it: SIGTERM, SIGINT, or what it runs itself."""

import asyncio
import signal
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from typing import Any, TypeVar

T = TypeVar("T")


async def run_until_signal(
    process: AbstractAsyncContextManager[T],
    serve: Callable[[T, asyncio.Event], Coroutine[Any, Any, int]],
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
