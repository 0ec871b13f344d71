"""One thread for work that is too much for the loop, and whose turn it is to have it.

Invariant: one piece runs at a time, so no more memory is taken than the largest may take; of one
user they run in the order in which they were given. A piece should let others have the interpreter
at least every few milliseconds; while any runs, threads switch quickly (`switching.py`).
"""

import asyncio
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeVar, cast

from tailrace.core.errors import CoreError, OverCapacity, Unavailable
from tailrace.core.runtime.fair_queue import FairQueue, User
from tailrace.core.runtime.metrics import counter, gauge
from tailrace.core.runtime.switching import quick_switches
from tailrace.core.runtime.threads import JobThread
from tailrace.protocol.errors import ProtocolError

T = TypeVar("T")

WAITING_MAX: Final = 10_000
"""Pieces of all users that may wait."""
OF_USER_MAX: Final = 1_000
"""Pieces of one connection."""

CLOSE_S_MAX: Final = 10.0
"""How long the end waits for the piece that runs."""


class _Piece(NamedTuple):
    work: Callable[[], object]
    then: Callable[[Any], None]


@dataclass(slots=True)
class LaneMetrics:
    """What went through a lane."""

    pieces_total: int = counter("pieces of work that were done")
    refused_total: int = counter("pieces that were refused: too many waited")
    waiting: int = gauge("pieces that wait for their turn")


class FairLane:
    """The lane of one loop, from which all calls come. The thread starts with the first piece."""

    def __init__(
        self, name: str, waiting_max: int = WAITING_MAX, of_user_max: int = OF_USER_MAX
    ) -> None:
        self.metrics = LaneMetrics()
        self._name = name
        self._queue: FairQueue[_Piece] = FairQueue(waiting_max, of_user_max)
        self._running: _Piece | None = None
        self._thread: JobThread | None = None
        self._switching = ExitStack()
        self._idle = asyncio.Event()
        self._idle.set()
        self._closed = False

    def __len__(self) -> int:
        """Return how many pieces wait or run."""
        return len(self._queue) + (self._running is not None)

    def submit(
        self,
        user: User,
        work: Callable[[], T],
        then: Callable[[T | ProtocolError | CoreError], None],
    ) -> bool:
        """Run `work` in the thread when it is the user's turn, then `then` on the loop.

        False: too much waits, or it is closed; neither is called. `then` gets the result, or the
        ProtocolError or CoreError that was raised; Unavailable for anything else that was, and for
        what `close` found waiting.
        """
        if self._closed or not self._queue.has_room(user):
            self.metrics.refused_total += 1
            return False
        self.metrics.waiting = len(self._queue) + 1
        self._queue.put(user, _Piece(work, cast("Callable[[Any], None]", then)))
        if self._running is None:
            self._idle.clear()
            self._switching.enter_context(quick_switches())
            self._run_next()
        return True

    async def call(self, user: User, work: Callable[[], T]) -> T:
        """Run `work` in the thread when it is the user's turn, and return its result.

        Errors: the ProtocolError or CoreError that it raised, and as `submit`; OverCapacity.
        Cancel: it is run no more, unless it runs.
        """
        result: asyncio.Future[T | None] = asyncio.get_running_loop().create_future()

        def take(got: T | ProtocolError | CoreError | None) -> None:
            if result.done():
                return
            if isinstance(got, ProtocolError | CoreError):
                result.set_exception(got)
            else:
                result.set_result(got)

        if not self.submit(user, lambda: None if result.done() else work(), take):
            raise OverCapacity(f"{self._name}: too much waits")
        return cast("T", await result)

    async def close(self, timeout_s: float = CLOSE_S_MAX) -> None:
        """Give up what waits; wait for what runs, so long at most. Idempotent. Errors: none."""
        self._closed = True
        while len(self._queue):
            self._queue.take().then(Unavailable(f"{self._name}: closed"))
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._idle.wait()
        if self._thread is not None:
            self._thread.stop()
            self._thread = None
        if self._running is not None:
            self._on_done(Unavailable(f"{self._name}: closed"))

    def _run_next(self) -> None:
        piece = self._running = self._queue.take()
        if self._thread is None:
            self._thread = JobThread(self._name, self._on_bug, jobs_at_once=1)
            self._thread.start()
        self._thread.submit(lambda: _result_of(piece.work), self._on_done)

    def _on_done(self, result: object) -> None:
        """Hand out a result, and begin the next piece."""
        piece, self._running = self._running, None
        if piece is None:
            return  # it was given up
        self.metrics.pieces_total += 1
        self.metrics.waiting = len(self._queue)
        if len(self._queue):
            self._run_next()
        else:
            self._switching.close()
            self._idle.set()
        piece.then(result)

    def _on_bug(self, error: Exception) -> None:
        """Go on with another thread: this one ended, as its piece raised what it must not."""
        self._thread = None
        self._on_done(Unavailable(f"{self._name} failed: {error!r}"))


def _result_of(work: Callable[[], object]) -> object:
    """Return the result, or what is wrong with a peer's bytes, without what its frames hold."""
    try:
        return work()
    except ProtocolError as error:
        return error.with_traceback(None)
