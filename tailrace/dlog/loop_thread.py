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
from typing import Any, Final, Generic, TypeVar

from tailrace.core.errors import Unavailable
from tailrace.core.runtime.tasks import Tasks

_LOOKS_FOR_SIGNALS_S: Final = 1.0
"""How late a Ctrl-C may be that comes in the moment in which the main thread begins to wait: Python
wakes a thread only if it waits already."""

T = TypeVar("T")


class ThreadEnded(Unavailable):
    """The thread of a namespace has ended, and with it all that was open there."""


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
        """End the work, begun or not; on the loop."""
        if self._task is not None:
            self._task.cancel()
        elif not self.answer.done():
            self.answer.set_exception(ThreadEnded("the call never began"))

    def wait(self) -> T:
        """Return what the work gives. Errors: the work's."""
        self.wait_for_end()
        return self.answer.result()

    def wait_for_end(self) -> None:
        """Return once there is an answer. Errors: KeyboardInterrupt, in the main thread."""
        while not self.answer.done():
            with suppress(TimeoutError):
                self.answer.exception(_LOOKS_FOR_SIGNALS_S)

    async def _do(self) -> None:
        try:
            result = await self._work()
        except Exception as error:  # noqa: BLE001 - raised in the thread that waits
            self.answer.set_exception(error)
        else:
            self.answer.set_result(result)

    def _settle(self, _task: "asyncio.Task[None]") -> None:
        if not self.answer.done():
            self.answer.set_exception(ThreadEnded("the namespace was closed meanwhile"))


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

    @property
    def is_here(self) -> bool:
        """Whether this is the process that started it: a fork has no such thread."""
        return os.getpid() == self._process

    def start(self) -> None:
        """Return once its loop runs. Errors: RuntimeError when the system gives no thread."""
        self._thread.start()
        self._is_ready.wait()

    def submit(self, work: Callable[[], Awaitable[T]]) -> "Future[T]":
        """Have work done on the loop; return its answer to come.

        Errors: Unavailable after `stop`; RuntimeError in a fork of the process that started it.
        """
        call = _Call(work)
        self._post(lambda: call.begin(self._tasks))
        return call.answer

    def run(self, work: Callable[[], Awaitable[T]]) -> T:
        """Do work on the loop, and return what it gives.

        A KeyboardInterrupt cancels the work and waits for its end, so that what comes next finds
        nothing half done; a second one does not wait. Errors: the work's; as `submit`.
        """
        if threading.current_thread() is self._thread:
            raise RuntimeError("a blocking call in the loop's own thread would wait for itself")
        call = _Call(work)
        try:
            self._post(lambda: call.begin(self._tasks))
            return call.wait()
        except BaseException:
            if not call.answer.done():
                self._post(call.cancel)
                call.wait_for_end()
            raise

    def stop(self) -> None:
        """Cancel what still runs, and end the thread. Idempotent; nothing to do in a fork.

        Errors: none.
        """
        if not self.is_here:
            return
        with suppress(ThreadEnded):
            self._post(self._end.set, is_last=True)
        self._thread.join()

    def _post(self, callback: Callable[[], Any], *, is_last: bool = False) -> None:
        """Have the loop call back, in the order of the posts; it is woken once for many."""
        if not self.is_here:
            raise RuntimeError("a namespace that was opened before a fork is of no use behind it")
        with self._posting:
            if self._is_stopped:
                raise ThreadEnded("the namespace is closed")
            self._is_stopped = is_last
            if not self._posted:  # first: an interrupt in between wakes the loop for nothing
                self._loop.call_soon_threadsafe(self._call_back)
            self._posted.append(callback)

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
