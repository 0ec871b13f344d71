"""How often a process that serves looks for garbage: objects that only refer to each other.

Python looks after every 700 objects that are new and still there. A broker has more than that in
flight in one turn of its loop, none of it garbage, and what its modules made at the start never is.
"""

import asyncio
import gc
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

YOUNG_OBJECTS_MAX: Final = 4_000
"""New objects, less what was freed, after which the youngest are looked at: above what requests in
flight consist of.

Garbage waits so long at most, or goes at once where nothing refers to itself. Measured (16 KB
produces, 96 in flight): 5 % of the broker's CPU with 700, under 1 % with 10,000.
"""

YOUNG_CPU_S: Final = 0.03
"""CPU of the loop after which they are looked at, too: what is freed makes up for what is new.

A look among 10,000 readers met what each of them holds until its next message, 120,000 objects.
"""

_TICK_S: Final = 0.05

LONG_LOOKS_S: Final = 0.005
"""CPU of looks at the youngest after which what they left counts as old, without a second look."""

OLD_OBJECTS_MIN: Final = 1_000_000
"""As many objects may be old before all are looked at for the first time: some 100 MB, modules
(130,000) included. 10,000 readers over gRPC stay below."""


@contextmanager
def loading_modules() -> Iterator[None]:
    """Look for no garbage while modules load, and leave what they made out of every later look.

    The modules of a broker make 130,000 objects. Walking through them again and again, and in full
    before `ready`, was a fifth of a start's CPU (0.39 s; medians of fifteen, 0.31 without).
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def settle_collector() -> None:
    """Leave out what is here now, look at the rest less often, and at nothing old again and again.

    Call it on the loop when all has started. Cost: one full look at what was made since modules
    were loaded; later ones as `Ageing`.
    """
    gc.collect()
    gc.freeze()
    look_seldom()
    if sys.version_info < (3, 14):  # from there on Python looks at what is old in pieces
        Ageing(asyncio.get_running_loop()).start()


def look_seldom() -> None:
    """Look at new objects once there are `YOUNG_OBJECTS_MAX` of them."""
    gc.set_threshold(YOUNG_OBJECTS_MAX, *gc.get_threshold()[1:])


class Ageing:
    """Leaves out of later looks what two of them, or one where there is much, found to be in use.

    Python looks at everything whenever it has grown by a quarter: 0.4 s for a read proxy with
    10,000 readers, which are 630,000 objects. Here a look takes time by what is new. Objects that
    became old and then garbage, and only these, stay until there are `OLD_OBJECTS_MIN` objects, or
    twice as many as the last full look left: then all are looked at, once.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._began_s = self._looked_s = self._took_s = 0.0
        self._new = 0
        """Objects, at most, that became old since they were counted."""
        self._counted = 0
        self._most = OLD_OBJECTS_MIN

    def start(self) -> None:
        """Begin; it ends with the loop."""
        gc.callbacks.append(self.on_look)
        self._on_tick()

    def on_look(self, phase: str, info: dict[str, Any]) -> None:
        """Take note of a look's begin and end, as one of Python's `gc.callbacks`."""
        if phase == "start":
            self._began_s = time.thread_time()
            self._new += gc.get_count()[0]
            return
        self._took_s += time.thread_time() - self._began_s
        if info["generation"] == 0 and self._took_s < LONG_LOOKS_S:
            return
        gc.freeze()
        self._took_s = 0.0
        # Counting them takes a while, too.
        if self._new > max(self._most - self._counted, self._most // 8):
            self._new = 0
            if not self._loop.is_closed():
                self._loop.call_soon_threadsafe(self._look_at_all_if_many)

    def _on_tick(self) -> None:
        if time.thread_time() - self._looked_s >= YOUNG_CPU_S:
            gc.collect(0)
            self._looked_s = time.thread_time()
        self._loop.call_later(_TICK_S, self._on_tick)

    def _look_at_all_if_many(self) -> None:
        self._counted = gc.get_freeze_count()
        if self._counted > self._most:
            gc.unfreeze()
            gc.collect()  # its end freezes what is left
            self._counted = gc.get_freeze_count()
            self._most = max(OLD_OBJECTS_MIN, 2 * self._counted)
            self._new = 0
