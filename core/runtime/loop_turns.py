"""Long work on the event loop in pieces: everything else goes on between two of them.

Invariant: in each turn of the loop one piece of long work goes on, of all that there is; pieces
take turns in the order in which they ended their last. So however many clients ask for much at
once, everyone else waits for one piece, which `PIECE_UNITS` bounds.
A unit is what a request wants of one thing that it names: some ten microseconds. Work whose
things cost more says how many units each is.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Generator, Iterable
from typing import Final, TypeVar

T = TypeVar("T")

PIECE_UNITS: Final = 500
"""Units of a piece: 5 ms, a tenth of what nobody may wait longer for."""


class LoopTurns:
    """The turns of the loop, for the long work of one process. All calls come from the loop."""

    def __init__(self) -> None:
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._is_given = False  # `_give` is called in the next turn of the loop

    async def next(self) -> None:
        """Wait for a turn. Cancel: the turn goes to the next that waits."""
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[None] = loop.create_future()
        self._waiting.append(turn)
        if not self._is_given:
            self._is_given = True
            loop.call_soon(self._give)
        await turn

    def _give(self) -> None:
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                break
        self._is_given = bool(self._waiting)
        if self._is_given:
            asyncio.get_running_loop().call_soon(self._give)

    async def finish(self, steps: Generator[None, None, T]) -> T:
        """Run work whose first piece is most often all of it: that one at once. Errors: its own."""
        try:
            next(steps)
        except StopIteration as done:
            result: T = done.value
            return result
        return await self.run(steps)

    async def run(self, steps: Generator[None, None, T]) -> T:
        """Run work that yields between its pieces; return what it returns. Errors: its own."""
        while True:
            await self.next()
            try:
                next(steps)
            except StopIteration as done:
                result: T = done.value
                return result


class Pace:
    """What one request has done since its last turn: it waits for another when that is a piece."""

    __slots__ = ("_left", "_turns")

    def __init__(self, turns: LoopTurns) -> None:
        self._turns = turns
        self._left = PIECE_UNITS

    async def spend(self, units: int = 1) -> None:
        """Count work that was done; let others go on if that makes a piece."""
        self._left -= units
        if self._left <= 0:
            self._left = PIECE_UNITS
            await self._turns.next()

    async def each(self, things: Iterable[T], units: int = 1) -> AsyncIterator[T]:
        """Yield things, others' turns in between. `units`: what is done with each of them."""
        for thing in things:
            yield thing
            self._left -= units
            if self._left <= 0:
                self._left = PIECE_UNITS
                await self._turns.next()
