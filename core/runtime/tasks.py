"""Owners for tasks that outlive the call that starts them, where a TaskGroup does not fit.

Invariant: every task has an owner with a name; a task that fails is logged once, and its owner is
told; when the owner closes, all its tasks have ended. Prefer an `asyncio.TaskGroup`: this is for
objects that start work from a plain `def` (a connection that reconnects, a timer that fires).
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

logger = logging.getLogger(__name__)


class Tasks:
    """The tasks of one owner. All calls come from the loop."""

    def __init__(self, owner: str, on_failure: Callable[[Exception], None] | None = None) -> None:
        """`on_failure` hears of each failed task, after the log did: to fail what it served."""
        self._owner = owner
        self._on_failure = on_failure
        self._running: set[asyncio.Task[None]] = set()
        self._closed = False

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
            if self._on_failure is not None:
                self._on_failure(error)
