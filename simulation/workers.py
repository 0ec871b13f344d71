"""Worker threads as turns of the simulation's loop.

A step runs at one moment of virtual time; what the devices took is added up (`SimLoop.spend`), the
worker is busy for so long, and what the step hands to the loop arrives after it. So the loop goes
on while a "thread" waits for its disk, as with real threads; steps of several threads do not
interleave inside, only between their calls.
"""

import contextvars
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tailrace.simulation.process import ProcessDied

if TYPE_CHECKING:
    import asyncio
    from queue import SimpleQueue

    from tailrace.simulation.loop import SimLoop

WAKE_S = 5e-6
"""From `put` to the step of a thread that slept."""


class VirtualRunner:
    """One worker. See tailrace.core.runtime.threads.Runner."""

    def __init__(
        self, loop: "SimLoop", name: str, queue: "SimpleQueue[Any]", step: Callable[[], bool]
    ) -> None:
        self.name = name
        self.free_at_s = 0.0
        self._loop = loop
        self._queue = queue
        self._step = step
        self._context = contextvars.copy_context()
        self._started = False
        self._ended = False
        self._turn: asyncio.TimerHandle | None = None

    def put(self, item: Any) -> None:
        self._queue.put(item)
        self._plan()

    def start(self) -> None:
        self._started = True
        self._plan()

    def join(self) -> None:
        """Do what is left at once: whoever joins waits for nothing else."""
        if not self._started:
            return
        while not self._ended and not self._queue.empty():
            self._run_step()

    def _plan(self) -> None:
        if not self._started or self._ended or self._turn is not None or self._queue.empty():
            return
        when = max(self.free_at_s, self._loop.time() + WAKE_S)
        self._turn = self._loop.call_at(when, self._take_turn, context=self._context)

    def _take_turn(self) -> None:
        self._turn = None
        if not self._ended and not self._queue.empty():
            self._run_step()
        self._plan()

    def _run_step(self) -> None:
        outer, self._loop.worker = self._loop.worker, self
        self.free_at_s = max(self.free_at_s, self._loop.time())
        try:
            self._ended = not self._step()
        except ProcessDied:
            self._ended = True
        finally:
            self._loop.worker = outer
