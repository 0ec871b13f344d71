"""A process of the simulation: a context that callbacks and tasks inherit.

Everything that a process ever schedules carries its context, because asyncio copies the context
into each callback and task. So `SimLoop` knows whose turn it is: a paused process' turns are kept
until it resumes, a dead one's never come. Nothing in the code under test takes part in this.
"""

import asyncio
import contextvars
from collections.abc import Callable, Coroutine
from enum import Enum
from typing import Any

from typing_extensions import override

CURRENT: contextvars.ContextVar["SimProcess"] = contextvars.ContextVar("sim_process")


class ProcessDied(BaseException):
    """Stops the step in which a process died. Nobody but the simulation catches it."""


class State(Enum):
    RUNNING = "running"
    PAUSED = "paused"
    DEAD = "dead"


class SimProcess:
    def __init__(self, name: str, host: str) -> None:
        self.name = name
        self.host = host
        self.state = State.RUNNING
        self.kept: list[asyncio.Handle] = []
        """Turns that wait for `resume`; a dead process' for nothing."""
        self.died: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        """Done when it is dead, with the cause."""
        self.on_death: list[Callable[[], None]] = []
        """What the machine does when the process ends: sockets, locks, sessions."""
        self.listener: Any = None
        """Who hears of this process' requests: a checker."""
        self._context = contextvars.copy_context()
        self._context.run(CURRENT.set, self)
        self._tasks: list[asyncio.Task[Any]] = []
        # Kept to the end, as its tasks are: finalised when it dies they would go on for a bit.
        asyncio.get_running_loop().processes.append(self)  # type: ignore[attr-defined]

    @override
    def __repr__(self) -> str:
        return f"<{self.name} {self.state.value}>"

    @property
    def alive(self) -> bool:
        return self.state is not State.DEAD

    def spawn(self, work: Coroutine[Any, Any, Any], name: str) -> "asyncio.Task[Any]":
        """Start a task of this process."""
        task = asyncio.get_running_loop().create_task(
            work, name=f"{self.name}.{name}", context=self._context
        )
        self._tasks.append(task)
        return task

    def begin(self, work: Coroutine[Any, Any, Any], name: str) -> None:
        """Start a task of this process without waiting for it."""
        _ = self.spawn(work, name)

    def call(self, function: Callable[..., Any], *args: Any) -> Any:
        """Call something as this process would."""
        if CURRENT.get(None) is self:
            return function(*args)
        return self._context.copy().run(function, *args)

    async def run(self, work: Coroutine[Any, Any, Any], name: str) -> Any:
        """Start a task and wait for its end, or raise ProcessGone when the process dies first."""
        task = self.spawn(work, name)
        await asyncio.wait((task, self.died), return_when=asyncio.FIRST_COMPLETED)
        if not task.done() or (not task.cancelled() and isinstance(task.exception(), ProcessDied)):
            raise ProcessGone(f"{self.name}: {self.died.result()}")
        return task.result()

    def pause(self) -> None:
        if self.state is State.RUNNING:
            self.state = State.PAUSED

    def resume(self) -> None:
        if self.state is State.PAUSED:
            self.state = State.RUNNING
            kept, self.kept = self.kept, []
            for handle in kept:
                asyncio.get_running_loop()._add_callback(handle)  # type: ignore[attr-defined]

    def kill(self, cause: str) -> None:
        """End it here and now; what it had on its mind never happens."""
        if self.state is State.DEAD:
            return
        self.state = State.DEAD
        for task in self._tasks:
            task._log_destroy_pending = False  # type: ignore[attr-defined]
        self.died.set_result(cause)
        for callback in self.on_death:
            callback()


class ProcessGone(Exception):
    """A process died while somebody waited for its work."""


def current_process() -> SimProcess | None:
    return CURRENT.get(None)
