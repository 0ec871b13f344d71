"""An event loop in a thread of its own, for callers in other threads that block.

Invariant: each call that was taken is answered, whatever ends first: the work, its caller's
patience, the thread. Calls begin in the order in which they came.
"""

import asyncio
import os
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, Generic, TypeVar

from tailrace.core.errors import Unavailable
from tailrace.core.runtime.tasks import Tasks

T = TypeVar("T")


class _Call(Generic[T]):
    """One call: work for the loop, and the answer that another thread waits for."""

    def __init__(self, work: Callable[[], Awaitable[T]]) -> None:
        self.answer: Future[T] = Future()
        self.answer.set_running_or_notify_cancel()  # from here on its caller cannot cancel it
        self._work = work
        self._task: asyncio.Task[None] | None = None

    def begin(self, tasks: Tasks) -> None:
        """Start the work; on the loop."""
        self._task = tasks.spawn(self._do(), "call")
        self._task.add_done_callback(self._settle)

    def cancel(self) -> None:
        """End the work; on the loop, after `begin`."""
        if self._task is not None:
            self._task.cancel()

    async def _do(self) -> None:
        try:
            result = await self._work()
        except Exception as error:  # noqa: BLE001 - raised in the thread that waits
            self.answer.set_exception(error)
        else:
            self.answer.set_result(result)

    def _settle(self, _task: "asyncio.Task[None]") -> None:
        if not self.answer.done():
            self.answer.set_exception(Unavailable("the call was given up"))


class LoopThread:
    """The thread; `start` it once, `stop` it at the end. Any thread may call."""

    def __init__(self) -> None:
        self._process = os.getpid()
        self._thread = threading.Thread(target=self._main, name="tailrace.dlog", daemon=True)
        self._is_ready = threading.Event()
        self._posting = threading.Lock()
        self._posted: list[Callable[[], Any]] = []
        self._is_stopped = False
        self._loop: asyncio.AbstractEventLoop
        self._tasks: Tasks
        self._end: asyncio.Event

    def start(self) -> None:
        """Return once its loop runs. Errors: RuntimeError when the system gives no thread."""
        self._thread.start()
        self._is_ready.wait()

    def submit(self, work: Callable[[], Awaitable[T]]) -> "Future[T]":
        """Have work done on the loop; return its answer to come.

        Errors: Unavailable after `stop`; RuntimeError in a fork of the process that started it.
        """
        return self._submit(work).answer

    def run(self, work: Callable[[], Awaitable[T]]) -> T:
        """Do work on the loop, and return what it gives.

        A KeyboardInterrupt cancels the work and waits for its end, so that what comes next finds
        nothing half done; a second one does not wait. Errors: the work's; as `submit`.
        """
        if threading.current_thread() is self._thread:
            raise RuntimeError("a blocking call in the loop's own thread would wait for itself")
        call = self._submit(work)
        try:
            return call.answer.result()
        except BaseException:
            if not call.answer.done():
                self._post(call.cancel)
                call.answer.exception()
            raise

    def stop(self) -> None:
        """Cancel what still runs, and end the thread. Idempotent; not for a fork, which has none.

        Errors: none.
        """
        if os.getpid() != self._process:
            return
        with suppress(Unavailable):
            self._post(self._end.set, is_last=True)
        self._thread.join()

    def _submit(self, work: Callable[[], Awaitable[T]]) -> _Call[T]:
        call = _Call(work)
        self._post(lambda: call.begin(self._tasks))
        return call

    def _post(self, callback: Callable[[], Any], *, is_last: bool = False) -> None:
        """Have the loop call back, in the order of the posts; it is woken once for many."""
        if os.getpid() != self._process:
            raise RuntimeError("a namespace that was opened before a fork is of no use behind it")
        with self._posting:
            if self._is_stopped:
                raise Unavailable("the namespace is closed")
            self._is_stopped = is_last
            self._posted.append(callback)
            if len(self._posted) == 1:
                self._loop.call_soon_threadsafe(self._call_back)

    def _call_back(self) -> None:
        with self._posting:
            posted, self._posted = self._posted, []
        for callback in posted:
            callback()

    def _main(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._tasks = Tasks("dlog.sync")
        self._end = asyncio.Event()
        self._is_ready.set()
        await self._end.wait()
        await self._tasks.close()
