"""Where passes are computed: a process for each worker, kept from one log to the next.

In a thread of this process a pass would take the interpreter from those who produce, and with them
share one core. A process takes 0.3 s to start, so one that is free is kept for a minute; then it
goes with its memory, and a broker at rest has none.
"""

import asyncio
import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, Protocol, TypeVar, TypeVarTuple

from tailrace.compaction.cleaner.config import CleanerConfig
from tailrace.compaction.cleaner.run import Compute
from tailrace.compaction.cleaner.walks import Walks
from tailrace.core.errors import Unavailable
from tailrace.core.runtime.child_process import ChildProcess
from tailrace.core.runtime.clock import Clock
from tailrace.core.runtime.threads import JobThread

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

BLOCK_TIMEOUT_S = 600.0
"""For the CPU work of one block, of a megabyte or so."""


IDLE_S = 60.0
"""How long one is kept that nobody works with."""


class Computer(Compute, Protocol):
    """One worker's walks, until they are closed."""

    async def close(self) -> None:
        """End it, whatever it does; once. Errors: none."""


StartComputer = Callable[[int, float], Computer]
"""Starts one for a key summary of so many bytes, full at that load factor. Errors: CoreError."""


class ProcessComputer:
    """Walks in a process of their own. All calls come from the loop."""

    def __init__(self, size_bytes: int, load_factor: float) -> None:
        """Start it. Errors: Unavailable: the system gives no process."""
        try:
            self._child = ChildProcess(Walks, size_bytes, load_factor)
        except OSError as error:
            raise Unavailable(f"no process for the cleaner: {error}") from error
        self._loop = asyncio.get_running_loop()
        self._sending, self._receiving = (
            JobThread(f"cleaner {what}", lambda _: self._child.kill(), jobs_at_once=1)
            for what in ("sending", "receiving")
        )
        self._sending.start()
        self._receiving.start()

    @property
    def pid(self) -> int:
        """The number of its process."""
        return self._child.pid

    def __call__(self, step: Callable[[Walks, *Ts], T], /, *arguments: *Ts) -> "asyncio.Future[T]":
        """Compute a step. Errors: CorruptBatch; ChildFailed; Unavailable: it is gone.

        A step that takes longer than `BLOCK_TIMEOUT_S` costs it its process.
        """
        answer: asyncio.Future[T] = self._loop.create_future()
        timer = self._loop.call_later(BLOCK_TIMEOUT_S, self._child.kill)

        def settle(found: Any) -> None:
            timer.cancel()
            if answer.done():
                return
            if found.error is not None:
                answer.set_exception(found.error)
            else:
                answer.set_result(found.result)

        def send() -> _Outcome:
            sent = _caught(partial(self._child.send, step, *arguments))
            if sent.error is None:
                self._receiving.submit(partial(_caught, self._child.receive), settle)
            return sent

        def on_sent(sent: Any) -> None:
            if sent.error is not None:
                settle(sent)

        self._sending.submit(send, on_sent)
        return answer

    async def close(self) -> None:
        """End it; a step under way fails. Call it once. Errors: none."""
        self._child.kill()
        await self._sending.call(_Outcome)  # behind all that were to be sent, and were not
        await self._receiving.call(self._child.wait)
        self._sending.stop()
        self._receiving.stop()


class Computers:
    """Takes and gives computers. All calls come from the loop."""

    def __init__(self, start: StartComputer, clock: Clock) -> None:
        self._start = start
        self._clock = clock
        self._free: list[tuple[Computer, float]] = []
        """With the time of the clock at which each came back; the last one is taken first."""
        self._shape = (0, 0.0)

    async def take(self, config: CleanerConfig) -> Computer:
        """Return one with a key summary of the config's size. Errors: Unavailable."""
        shape = (config.worker_buffer_bytes, config.load_factor)
        if shape != self._shape:
            self._shape = shape
            await self.drop()
        return self._free.pop()[0] if self._free else self._start(*shape)

    async def give_back(self, computer: Computer, config: CleanerConfig) -> None:
        """Keep one that nobody works with any more, and that failed nobody, for the next log."""
        if (config.worker_buffer_bytes, config.load_factor) == self._shape:
            self._free.append((computer, self._clock.monotonic_s()))
        else:
            await computer.close()

    async def drop_idle(self) -> None:
        """End those that nobody worked with for `IDLE_S`."""
        await self._drop_before(self._clock.monotonic_s() - IDLE_S)

    async def drop(self) -> None:
        """End those that nobody works with."""
        await self._drop_before(math.inf)

    async def _drop_before(self, then_s: float) -> None:
        while old := [each for each in self._free if each[1] <= then_s]:
            self._free.remove(old[0])  # one by one: who is cancelled leaves the others to be found
            await old[0][0].close()


class _Outcome(NamedTuple):
    """What a step gave or raised: the thread that waited for it must not die of it."""

    result: Any = None
    error: Exception | None = None


def _caught(work: Callable[[], object]) -> _Outcome:
    try:
        return _Outcome(work())
    except Exception as error:  # noqa: BLE001 - raised again on the loop, with its traceback
        return _Outcome(None, error)
