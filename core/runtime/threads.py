"""Threads for calls that block, and how an event loop hands them work without waiting.

Whoever puts pays well under a microsecond, and the thread is given all that waits at once. A loop
that is a `VirtualThreads` runs the work itself, in its own time and order: so a simulation has no
threads, and nothing here or in the users of this module differs under it.
"""

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

from tailrace.core.errors import CoreError

logger = logging.getLogger(__name__)

RESULT_BYTES_MAX = 4 * 1024 * 1024
"""Results of a JobThread go to the loop when they are this big together. Unit: bytes."""

T = TypeVar("T")


class Runner(Protocol):
    """What runs the steps of one worker: a thread, or a simulation."""

    put: Callable[[Any], None]
    """Append to the worker's queue and see to it that a step follows."""

    def start(self) -> None:
        """Begin to run steps."""

    def join(self) -> None:
        """Return when the worker has ended; at once if it was never started."""


@runtime_checkable
class VirtualThreads(Protocol):
    """A loop that takes the place of threads."""

    def new_runner(self, name: str, queue: "SimpleQueue[Any]", step: Callable[[], bool]) -> Runner:
        """Return a runner: `step` takes what is in `queue` and works; False: it was the last."""


class _ThreadRunner:
    """A thread that makes one step after the other; a step waits until the queue has something."""

    def __init__(self, name: str, queue: "SimpleQueue[Any]", step: Callable[[], bool]) -> None:
        self.put: Callable[[Any], None] = queue.put
        self._step = step
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def join(self) -> None:
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        while self._step():
            pass


def _new_runner(name: str, queue: "SimpleQueue[Any]", step: Callable[[], bool]) -> Runner:
    loop: object = None
    with contextlib.suppress(RuntimeError):  # a worker of a program without a loop
        loop = asyncio.get_running_loop()
    if isinstance(loop, VirtualThreads):
        return loop.new_runner(name, queue, step)
    return _ThreadRunner(name, queue, step)


class WorkerThread(Generic[T]):
    """One thread that is given all that waits, up to a weight, each time it is free.

    Invariant: items are worked on in the order they were put, each once. When `work` raises, the
    thread reports to `failed` and ends: nothing that was put after is ever worked on (fail-stop).
    Cost: `put` takes 0.1 us while the thread is busy and about 5 us when it must be woken.
    """

    def __init__(
        self,
        name: str,
        work: Callable[[list[T]], None],
        failed: Callable[[Exception], None],
        *,
        weigh: Callable[[T], int] = lambda _: 1,
        weight_max: int = 1024,
    ) -> None:
        self._work = work
        self._failed = failed
        self._weigh = weigh
        self._weight_max = weight_max
        self._queue: SimpleQueue[T | None] = SimpleQueue()
        self._name = name
        self._runner = _new_runner(name, self._queue, self._step)
        self.put: Callable[[T], None] = self._runner.put

    def start(self) -> None:
        """Start the thread."""
        self._runner.start()

    def stop(self) -> None:
        """Let the thread end after what was put before. Does not wait; see `join`."""
        self._runner.put(None)

    def join(self) -> None:
        """Wait for the thread's end. Blocks: never call it on a loop that others use."""
        self._runner.join()

    def _step(self) -> bool:
        try:
            return self._take_and_work()
        except Exception as error:
            logger.exception("worker_failed name=%s", self._name)
            self._failed(error)
            return False

    def _take_and_work(self) -> bool:
        queue, weigh = self._queue, self._weigh
        item = queue.get()
        batch: list[T] = []
        weight = 0
        while item is not None:
            batch.append(item)
            weight += weigh(item)
            if weight >= self._weight_max or queue.empty():
                break
            item = queue.get_nowait()
        if batch:
            self._work(batch)
        return item is not None


class JobThread:
    """A thread for calls that block: `work()` runs there, `then(result or error)` on the loop.

    Jobs run in order. Results go back together, one wake-up of the loop for all that were ready,
    but not more than `RESULT_BYTES_MAX` at once. Only OSError and CoreError reach `then`; anything
    else is our bug: it goes to `failed`, and no job runs after it. A `then` that raises costs the
    other jobs nothing.
    """

    def __init__(
        self, name: str, failed: Callable[[Exception], None], *, jobs_at_once: int = 256
    ) -> None:
        """`jobs_at_once`: whose results go to the loop together; 1 for jobs that take long."""
        self._loop = asyncio.get_running_loop()
        self._failed = failed
        self._thread = WorkerThread[tuple[Callable[[], Any], Callable[[Any], None]]](
            name, self._run, self._report, weight_max=jobs_at_once
        )

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def submit(self, work: Callable[[], T], then: Callable[[T | Exception], None]) -> None:
        """Run `work` in the thread and `then` on the loop."""
        self._thread.put((work, then))

    def call(self, work: Callable[[], T]) -> "asyncio.Future[T]":
        """Run `work` in the thread; the future has its result or its error."""
        future: asyncio.Future[T] = self._loop.create_future()

        def settle(result: T | Exception) -> None:
            if future.done():
                return
            if isinstance(result, Exception):
                future.set_exception(result)
            else:
                future.set_result(result)

        self.submit(work, settle)
        return future

    def stop(self) -> None:
        """Let the thread end after what was submitted before."""
        self._thread.stop()

    def join(self) -> None:
        """Wait for the thread's end. Blocks."""
        self._thread.join()

    def _report(self, error: Exception) -> None:
        self._tell(self._failed, error)

    def _tell(self, callback: Callable[[Any], object], about: object) -> None:
        """Call back on the loop, unless it has ended: then nothing waits for it any more."""
        try:
            self._loop.call_soon_threadsafe(callback, about)
        except RuntimeError:
            if not self._loop.is_closed():
                raise

    def _run(self, jobs: list[tuple[Callable[[], Any], Callable[[Any], None]]]) -> None:
        results: list[tuple[Callable[[Any], None], Any]] = []
        size = 0
        for work, then in jobs:
            try:
                result = work()
            except (OSError, CoreError) as error:
                result = error
            results.append((then, result))
            size += _size_of(result)
            if size > RESULT_BYTES_MAX:
                self._tell(_give_out, results)
                results, size = [], 0
        if results:
            self._tell(_give_out, results)


def _size_of(result: object) -> int:
    """Return the bytes of a result that is a buffer, or a list of them."""
    if isinstance(result, bytes):
        return len(result)
    if isinstance(result, list) and result and isinstance(result[0], bytes | memoryview):
        return sum(map(len, result))
    return 0


def _give_out(results: list[tuple[Callable[[Any], None], Any]]) -> None:
    left = iter(results)
    try:
        for then, result in left:
            then(result)
    finally:
        if rest := list(left):
            asyncio.get_running_loop().call_soon(_give_out, rest)
