"""The event loop of the simulation: time jumps to the next timer, sockets and threads are its own.

Tasks, futures and timeouts are asyncio's own, so the code under test runs as it does in production.
`SimLoop` overrides where the world comes in: the clock, the turns (a process may be paused or
dead), connections and servers, executors, and (`VirtualThreads`) the worker threads of
tailrace.core.runtime.threads.
"""

import asyncio
from collections.abc import Callable
from contextvars import Context, copy_context
from heapq import heapify, heappop, heappush
from random import Random
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from tailrace.core.runtime.task_health import task_health
from tailrace.simulation.process import CURRENT, SimProcess, State
from tailrace.simulation.workers import VirtualRunner

if TYPE_CHECKING:
    from queue import SimpleQueue

    from tailrace.simulation.network import SimNetwork

_RUNNING = State.RUNNING
LEAP_S_MAX = 24 * 3600.0
"""As far as asyncio waits at once."""
TURNS_MAX = 20_000_000
"""Callbacks of one schedule: beyond it something runs in circles."""


class Deadlock(Exception):
    """Every task waits and no timer is set."""


class Livelock(Exception):
    """The schedule does not end."""


class _Turn(asyncio.Handle):
    """A callback. Made once for each step of the schedule: without asyncio's chain of calls."""

    __slots__ = ()

    def __init__(self, callback: Any, args: Any, loop: "SimLoop", context: Context | None) -> None:
        self._context = copy_context() if context is None else context
        self._loop = loop
        self._callback = callback
        self._args = args
        self._cancelled = False
        self._repr = self._source_traceback = None


class _Timer(asyncio.TimerHandle):
    """The same, at a time. In the heap beside that time; timers of one moment have no order."""

    __slots__ = ()

    def __init__(
        self, when: float, callback: Any, args: Any, loop: "SimLoop", context: Context | None
    ) -> None:
        self._context = copy_context() if context is None else context
        self._loop = loop
        self._callback = callback
        self._args = args
        self._cancelled = False
        self._repr = self._source_traceback = None
        self._when = when
        self._scheduled = True

    __eq__ = object.__eq__
    __hash__ = object.__hash__

    @override
    def __lt__(self, other: object) -> bool:
        return False


class SimTask(asyncio.Task[Any]):
    """A task whose hash is its number: asyncio keeps tasks in sets, whose order must not vary."""

    _last_number = 0

    def __init__(self, *args: Any, **options: Any) -> None:
        SimTask._last_number += 1
        self._number = SimTask._last_number
        super().__init__(*args, **options)

    __eq__ = object.__eq__

    @override
    def __hash__(self) -> int:
        return self._number


def _new_task(loop: asyncio.AbstractEventLoop, work: Any, **options: Any) -> SimTask:
    return SimTask(work, loop=loop, **options)


class SimLoop(asyncio.SelectorEventLoop):
    """One simulated world. Run it in one thread, once."""

    network: "SimNetwork"

    def __init__(self, rng: Random) -> None:
        self.now_s = 0.0
        self.rng = rng
        self.turns = 0
        self.failures: list[dict[str, Any]] = []
        """What the loop's exception handler heard: a callback of ours raised."""
        self.processes: list[SimProcess] = []
        self.worker: VirtualRunner | None = None
        """Whose step runs now: what it schedules happens after the time that it spent."""
        SimTask._last_number = 0
        super().__init__()
        task_health(self).random = Random("pauses")
        self.set_task_factory(_new_task)
        self.set_exception_handler(lambda _, context: self._note_failure(context))

    @override
    def _run_once(self) -> None:
        """Take turns until somebody stops the loop, in the order of asyncio's `_run_once`."""
        ready = self._ready
        while True:
            self._forget_cancelled_timers()
            timers = self._scheduled
            if not ready and not self._stopping:
                if not timers:
                    raise Deadlock("every task waits and no timer is set")
                self.now_s += min(max(0.0, timers[0][0] - self.now_s), LEAP_S_MAX)
            end_s = self.now_s + self._clock_resolution
            while timers and timers[0][0] < end_s:
                timer = heappop(timers)[1]
                timer._scheduled = False
                ready.append(timer)
            for _ in range(len(ready)):
                turn = ready.popleft()
                if not turn._cancelled:
                    self._take(turn)
            timer = turn = None  # what has run is let go of
            if self._stopping:
                return

    def _forget_cancelled_timers(self) -> None:
        timers = self._scheduled
        if len(timers) > 100 and self._timer_cancelled_count / len(timers) > 0.5:
            self._scheduled = [entry for entry in timers if not entry[1]._cancelled]
            heapify(self._scheduled)
            self._timer_cancelled_count = 0
        else:
            while timers and timers[0][1]._cancelled:
                heappop(timers)
                self._timer_cancelled_count -= 1

    def _take(self, turn: asyncio.Handle) -> None:
        """Run a callback, unless its process is paused, or dead.

        What the dead would do is kept as well: let go of, it would be finalised, and finalisers go
        on.
        """
        context = turn._context
        process = context.get(CURRENT)
        if process is not None and process.state is not _RUNNING:
            process.kept.append(turn)
            return
        try:
            context.run(turn._callback, *turn._args)
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as error:  # noqa: BLE001 - as asyncio's handles do
            self.call_exception_handler({"message": f"in {turn!r}", "exception": error})

    @override
    def time(self) -> float:
        return self.now_s

    @override
    def call_soon(self, callback: Any, *args: Any, context: Any = None) -> asyncio.Handle:
        self._check_closed()
        self.turns += 1
        if self.turns > TURNS_MAX:
            raise Livelock(f"{TURNS_MAX} turns and no end")
        turn = _Turn(callback, args, self, context)
        self._ready.append(turn)
        return turn

    @override
    def call_at(
        self, when: float, callback: Any, *args: Any, context: Any = None
    ) -> asyncio.TimerHandle:
        self._check_closed()
        timer = _Timer(when, callback, args, self, context)
        heappush(self._scheduled, (when, timer))
        return timer

    @override
    def call_later(
        self, delay: float, callback: Any, *args: Any, context: Any = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self.now_s + delay, callback, *args, context=context)

    @override
    def call_soon_threadsafe(
        self, callback: Any, *args: Any, context: Any = None
    ) -> asyncio.Handle:
        """From a worker's step: after the time that the step has taken so far."""
        if self.worker is not None:
            self.worker.free_at_s += 1e-9  # timers of one moment run in any order
            return self.call_at(self.worker.free_at_s, callback, *args, context=context)
        return self.call_soon(callback, *args, context=context)

    @override
    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> "asyncio.Future[Any]":
        """Run it now: what the code under test gives to an executor is waiting for its workers."""
        future: asyncio.Future[Any] = self.create_future()
        try:
            result = func(*args)
        except Exception as error:  # noqa: BLE001 - the caller's to judge
            future.set_exception(error)
        else:
            future.set_result(result)
        return future

    def new_runner(
        self, name: str, queue: "SimpleQueue[Any]", step: Callable[[], bool]
    ) -> VirtualRunner:
        """VirtualThreads: the work of a worker runs on this loop."""
        return VirtualRunner(self, name, queue, step)

    def spend(self, seconds: float) -> float:
        """Have the worker that runs now wait for a device; return when it goes on."""
        if self.worker is None:
            return self.now_s
        self.worker.free_at_s += seconds
        return self.worker.free_at_s

    @override
    async def create_connection(
        self, factory: Any, host: Any = None, port: Any = None, **_: Any
    ) -> Any:
        return await self.network.connect(factory, host, port)

    @override
    async def create_server(
        self, factory: Any, host: Any = None, port: Any = None, **_: Any
    ) -> Any:
        return self.network.listen(factory, host, port)

    def _note_failure(self, context: dict[str, Any]) -> None:
        message = str(context.get("message"))
        if "never retrieved" in message or "destroyed" in message:
            return  # told when garbage is collected: no event of the schedule
        self.failures.append(context)
