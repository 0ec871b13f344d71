"""Who owns a task: the call that waits for it (`together`, `both`), or an object (`Tasks`).

Invariant: every task has an owner; when the owner's call returns, or the owner closes, all its
tasks have ended; a cancel of the owner is never lost. `Tasks` is for objects that start work from a
plain `def` (a connection that reconnects, a timer that fires): a task of theirs that fails is
logged once, and its owner is told.

Not `asyncio.TaskGroup`: one whose task fails in the moment that its caller is cancelled raises the
failure and forgets the cancel (until Python 3.13). A caller that tries again after an error would
go on, and who cancelled it would wait for ever. Outside of this package ruff forbids it.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar, cast

from tailrace.core.runtime.task_health import TaskHealth, task_health

logger = logging.getLogger(__name__)

T = TypeVar("T")
U = TypeVar("U")


async def together(work: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
    """Do several things at once, begun in their order; return what they return, in that order.

    Errors: the first one's; the others are cancelled, and all have ended. Cancel: ends all, and is
    never lost. Cost: a task for each; who is given many by a peer cuts them into chunks.
    """
    failed: list[Exception] = []

    async def guard(one: Coroutine[Any, Any, T]) -> T:
        try:
            return await one
        except Exception as error:
            failed.append(error)
            for task in tasks:
                task.cancel()
            raise asyncio.CancelledError from error

    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(guard(one)) for one in work]
    finally:
        for one in work:
            one.close()  # one that was cancelled before it began
    if failed:
        raise failed[0]
    return [task.result() for task in tasks]


async def both(first: Coroutine[Any, Any, T], second: Coroutine[Any, Any, U]) -> tuple[T, U]:
    """Do two things of two types at once, as `together`."""
    mixed: Sequence[Coroutine[Any, Any, Any]] = (first, second)
    one, other = await together(mixed)
    return cast("T", one), cast("U", other)


class Tasks:
    """The tasks of one owner. All calls come from the loop.

    Each comes to an end by itself; what is to go on for ever is a `Forever` (core.runtime.forever).
    """

    def __init__(self, owner: str, on_failure: Callable[[Exception], None] | None = None) -> None:
        """`on_failure` hears of each failed task, after the log did: to fail what it served.

        `owner`: of a closed set, without ids: `task_health` counts by it.
        """
        self._owner = owner
        self._on_failure = on_failure
        self._running: set[asyncio.Task[None]] = set()
        self._closed = False
        self._health: TaskHealth | None = None

    def __len__(self) -> int:
        """Return how many tasks run."""
        return len(self._running)

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> "asyncio.Task[None]":
        """Start work that this owner ends at its own close; return it, to be cancelled or awaited.

        Errors: RuntimeError after close.
        """
        if self._closed:
            work.close()
            raise RuntimeError(f"{self._owner} is closed")
        if self._health is None:
            self._health = task_health()
        task = asyncio.create_task(self._guard(work, name), name=f"{self._owner}.{name}")
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        # A task that is cancelled before its first step never awaits what it was given.
        task.add_done_callback(lambda _: work.close())
        return task

    def start(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """Start work that nobody but this owner looks after. Errors: as `spawn`."""
        _ = self.spawn(work, name)

    async def close(self) -> None:
        """Cancel everything and wait until it has ended. Idempotent; not from one of its tasks.

        Cancel: the tasks stay cancelled, only the waiting ends.
        """
        self._closed = True
        running = list(self._running)
        for task in running:
            task.cancel()
        if running:
            await asyncio.wait(running)

    async def _guard(self, work: Coroutine[Any, Any, None], name: str) -> None:
        try:
            await work
        except Exception as error:
            logger.exception("task_failed owner=%s task=%s", self._owner, name)
            if self._health is not None:
                self._health.note(self._health.record(self._owner), error, name)
            if self._on_failure is not None:
                self._on_failure(error)
