"""A few threads for calls of a library that blocks, each with a time limit.

Invariant: at most `size` calls run, and at most `waiting_max` wait for a thread. A call that is not
over in time keeps its thread until it is: its caller goes on with an error, and nobody is queued
behind it.
"""

import asyncio
from collections.abc import Callable
from typing import Final, TypeVar

from core.errors import OverCapacity, Unavailable
from core.runtime.threads import JobThread

T = TypeVar("T")

WAITING_MAX: Final = 10_000


class JobPool:
    """Threads that start with their first call. Calls raise only OSError and CoreError."""

    def __init__(self, name: str, size: int, waiting_max: int = WAITING_MAX) -> None:
        self._name = name
        self._size = size
        self._waiting_max = waiting_max
        self._waiting = 0
        self._turns = asyncio.Semaphore(size)
        self._idle: list[JobThread] = []
        self._started = 0
        self._failure: Exception | None = None
        self._running: set[asyncio.Future[object]] = set()

    async def call(self, work: Callable[[], T], timeout_s: float) -> T:
        """Run `work` in a thread and return its result.

        Errors: what `work` raised; Unavailable when no thread was free, or it was not over, in
        time; OverCapacity. Cancel: `work` still ends by itself.
        """
        if self._waiting >= self._waiting_max:
            raise OverCapacity(f"{self._name}: {self._waiting} calls wait for a thread already")
        self._waiting += 1
        try:
            async with asyncio.timeout(timeout_s):
                await self._turns.acquire()
        except TimeoutError:
            raise Unavailable(f"{self._name}: no thread was free in {timeout_s} s") from None
        finally:
            self._waiting -= 1
        job = self._start(work)
        done, _ = await asyncio.wait([job], timeout=timeout_s)
        if not done:
            raise Unavailable(f"{self._name}: no answer in {timeout_s} s")
        return job.result()

    async def close(self, timeout_s: float) -> None:
        """Let the threads end; wait for calls that still run, but not longer than `timeout_s`."""
        if self._running:
            await asyncio.wait(list(self._running), timeout=timeout_s)
        for thread in self._idle:
            thread.stop()
        self._idle.clear()

    def _start(self, work: Callable[[], T]) -> "asyncio.Future[T]":
        if self._failure is not None:
            self._turns.release()
            raise Unavailable(f"{self._name} ended: {self._failure!r}")
        thread = self._idle.pop() if self._idle else self._new_thread()
        job = thread.call(work)
        self._running.add(job)  # type: ignore[arg-type]  # only ever waited for

        def give_back(_: "asyncio.Future[T]") -> None:
            self._running.discard(job)
            if not job.cancelled():
                job.exception()  # retrieved: whoever asked may have gone
            self._idle.append(thread)
            self._turns.release()

        job.add_done_callback(give_back)
        return job

    def _new_thread(self) -> JobThread:
        self._started += 1
        thread = JobThread(f"{self._name}.{self._started}", self._on_bug)
        thread.start()
        return thread

    def _on_bug(self, error: Exception) -> None:
        """Fail all callers: a call raised what it must not, and its thread is gone."""
        self._failure = error
        for job in list(self._running):
            if not job.done():
                job.set_exception(Unavailable(f"{self._name} failed: {error!r}"))
