"""A few threads for calls of a library that blocks, each with a time limit.

Invariant: at most `size` calls run, and at most `waiting_max` wait for a thread. A call that is not
over in time keeps its thread until it is: its caller goes on with an error, and nobody is queued
behind it. Calls know nothing of each other: one with a bug fails alone.
"""

import asyncio
from collections.abc import Callable
from typing import Final, TypeVar

from tailrace.core.errors import OverCapacity, Unavailable
from tailrace.core.runtime.threads import JobThread

T = TypeVar("T")

WAITING_MAX: Final = 10_000


class JobPool:
    """Threads that start with their first call, and anew behind one that a bug has ended."""

    def __init__(self, name: str, size: int, waiting_max: int = WAITING_MAX) -> None:
        self._name = name
        self._size = size
        self._waiting_max = waiting_max
        self._waiting = 0
        self._turns = asyncio.Semaphore(size)
        self._idle: list[JobThread] = []
        self._started = 0
        self._running: dict[JobThread, asyncio.Future[object]] = {}

    async def call(self, work: Callable[[], T], timeout_s: float) -> T:
        """Run `work` in a thread and return its result.

        Errors: OSError and CoreError that `work` raised; Unavailable for anything else that it
        raised, when no thread was free, or it was not over, in time, and when the system gives
        no thread; OverCapacity.
        Cancel: `work` still ends by itself.
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
            await asyncio.wait(list(self._running.values()), timeout=timeout_s)
        for thread in self._idle:
            thread.stop()
        self._idle.clear()

    def _start(self, work: Callable[[], T]) -> "asyncio.Future[T]":
        try:
            thread = self._idle.pop() if self._idle else self._new_thread()
        except RuntimeError as error:  # Python's, at the system's limit of threads
            self._turns.release()
            raise Unavailable(f"{self._name}: {error}") from error
        job = thread.call(work)
        self._running[thread] = job  # type: ignore[assignment]  # only ever waited for, or failed

        def give_back(_: "asyncio.Future[T]") -> None:
            if not job.cancelled():
                job.exception()  # retrieved: whoever asked may have gone
            if self._running.pop(thread, None) is not None:  # else a bug has ended it
                self._idle.append(thread)
            self._turns.release()

        job.add_done_callback(give_back)
        return job

    def _new_thread(self) -> JobThread:
        self._started += 1
        name = f"{self._name}.{self._started}"
        thread = JobThread(name, lambda error: self._on_bug(thread, name, error))
        thread.start()
        return thread

    def _on_bug(self, thread: JobThread, name: str, error: Exception) -> None:
        """Fail the caller of a thread that has ended: its call raised what it must not."""
        job = self._running.pop(thread, None)
        if job is not None and not job.done():
            job.set_exception(Unavailable(f"{name} failed: {error!r}"))
