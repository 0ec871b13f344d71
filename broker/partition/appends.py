"""One batch on its way to the bookies, and whoever waits for what becomes of it.

It stands where a future would: `add_done_callback`, `done`, `result`, `await`. A future copies a
context and passes the loop's queue for every callback, 2.6 us for each batch; this calls back at
once, which its user must expect, and so everything that one confirmation answers is answered in
one step of the loop.
"""

import asyncio
from collections.abc import Callable, Generator
from typing import Any, TypeAlias

import msgspec

from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.ids import Offset


class AppendResult(msgspec.Struct, frozen=True, gc=False):
    """A batch that is confirmed."""

    base_offset: Offset
    log_append_time: int
    """-1 if the topic keeps the client's times. Unit: ms."""
    log_start_offset: Offset


AppendOutcome: TypeAlias = AppendResult | ErrorCode
"""What becomes of an append; never an exception."""


class Append(msgspec.Struct, eq=False):
    """A batch between its append and its outcome."""

    batch: memoryview
    base_offset: Offset
    last_offset: Offset
    log_append_time: int
    _outcome: AppendOutcome | None = None
    _callbacks: list[Callable[["Append"], object]] = []

    @classmethod
    def answered(cls, outcome: AppendOutcome) -> "Append":
        """Return what has its outcome already: a batch that did not go into the log."""
        append = cls(memoryview(b""), -1, -1, -1)
        append._outcome = outcome
        return append

    @classmethod
    def later(cls) -> "Append":
        """Return what stands for one that has to wait before it may be appended; see `follow`."""
        return cls(memoryview(b""), -1, -1, -1)

    def follow(self, append: "Append") -> None:
        """Have the outcome of another one, never in this call: who waits may append in turn."""
        if append.done():
            asyncio.get_running_loop().call_soon(self.settle, append.result())
        else:
            append.add_done_callback(lambda done: self.settle(done.result()))

    def done(self) -> bool:
        """Whether there is an outcome."""
        return self._outcome is not None

    def result(self) -> AppendOutcome:
        """Return the outcome. Ask `done` first."""
        assert self._outcome is not None, "asked before there was an outcome"
        return self._outcome

    def add_done_callback(self, callback: "Callable[[Append], object]") -> None:
        """Have `callback` called when there is an outcome: at once, if there is one already."""
        if self._outcome is None:
            self._callbacks.append(callback)
        else:
            callback(self)

    def settle(self, outcome: AppendOutcome) -> None:
        """Give it its outcome and call back. Errors: none, a callback's go to the loop's handler.

        So one that waits cannot cost the next in the log its answer.
        """
        self._outcome = outcome
        for callback in self._callbacks:
            try:
                callback(self)
            except Exception as error:  # noqa: BLE001 - the fault boundary of a callback, as a loop's
                context = {"message": f"callback of {self!r} failed", "exception": error}
                asyncio.get_running_loop().call_exception_handler(context)
        self._callbacks.clear()

    def __await__(self) -> Generator[Any, None, AppendOutcome]:
        """Wait for the outcome. Cancel: only the waiting ends."""
        if self._outcome is None:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

            def wake(_: Append) -> None:
                if not future.done():
                    future.set_result(None)

            self.add_done_callback(wake)
            yield from future
        return self.result()
