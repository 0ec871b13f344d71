"""The order of one partition while a batch of it is checked beside the loop. Pure, but for `soon`.

A batch that is being checked has a place; what comes for the partition meanwhile gets the places
behind it, and is done in that order once the check is over: so the order of the partition remains
that of the requests. Without such a batch nothing of this is used.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

from tailrace.broker.partition.appends import Append

AT_ONCE: Final = 100
"""Places that have their turn in one step of the loop: 5 ms, of batches that are appended."""


class Place:
    """A place in the order; its turn comes when it is the first, and ready."""

    __slots__ = ("run",)

    def __init__(self, run: Callable[[], None] | None = None) -> None:
        self.run = run


class InOrder:
    """The places of one partition. All calls come from the loop."""

    __slots__ = ("_going_on", "_places", "is_busy")

    def __init__(self) -> None:
        self.is_busy = False
        """Whether what comes now has to wait: not while something has its turn."""
        self._places: deque[Place] = deque()
        self._going_on = False

    def hold(self) -> Place:
        """Take a place for what is not ready."""
        return self._add(Place())

    def later(self, append: Callable[[], Append]) -> Append:
        """Append when all that came before has been; return what stands for it until then."""
        late = Append.later()
        self.behind(lambda: late.follow(append()))
        return late

    def behind(self, run: Callable[[], None]) -> None:
        """Have `run` called, once, when all before it had their turn.

        Only then may it append at once. It must not raise, nor call what may append in turn.
        """
        self._add(Place(run))

    def turn(self) -> "asyncio.Future[None]":
        """Return what is done when all that came before had its turn."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.behind(lambda: None if future.done() else future.set_result(None))
        return future

    def ready(self, place: Place, run: Callable[[], None]) -> None:
        """Have `run` called when the place has its turn: now, if it is the first."""
        place.run = run
        self._go_on()

    def _add(self, place: Place) -> Place:
        assert place.run is None or self.is_busy, "nothing to wait for"
        self._places.append(place)
        self.is_busy = True
        return place

    def _go_on(self) -> None:
        if self._going_on:
            return
        self._going_on = True
        places = self._places
        try:
            for _ in range(AT_ONCE):
                if not places or (run := places[0].run) is None:
                    return
                places.popleft()
                self.is_busy = False
                run()
                self.is_busy = bool(places)
        finally:
            self._going_on = False
            self.is_busy = bool(places)
        if places:
            asyncio.get_running_loop().call_soon(self._go_on)
