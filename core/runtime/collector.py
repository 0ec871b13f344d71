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
produces, 96 in flight): 5 % of the broker's CPU with 700, under 1 % with 10,000, with which a look
among 10,000 readers met 120,000 objects: 61 ms.
"""

LONG_LOOK_S: Final = 0.005
"""CPU of a look at new objects after which those that are left count as old at once.

What is freed makes up for what is new, so a look may meet far more than `YOUNG_OBJECTS_MAX`: with
10,000 readers all that each of them holds until the next message.
"""

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
        gc.callbacks.append(Ageing(asyncio.get_running_loop()).on_look)


def look_seldom() -> None:
    """Look at new objects once there are `YOUNG_OBJECTS_MAX` of them."""
    gc.set_threshold(YOUNG_OBJECTS_MAX, *gc.get_threshold()[1:])


class Ageing:
    """Leaves out of later looks what two looks, or a long one, found to be in use.

    Python looks at everything whenever it has grown by a quarter: 0.2 s for a read proxy with
    10,000 readers, which are 630,000 objects. Here a look takes time by what is new. Objects that
    became old and then garbage, and only these, stay until there are `OLD_OBJECTS_MIN` objects, or
    twice as many as the last full look left: then all are looked at, once.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._began_s = 0.0
        self._new = 0
        """Objects, at most, that became old since they were counted."""
        self._counted = 0
        self._most = OLD_OBJECTS_MIN

    def on_look(self, phase: str, info: dict[str, Any]) -> None:
        """Take note of a look's begin and end, as one of Python's `gc.callbacks`."""
        if phase == "start":
            self._began_s = time.thread_time()
            return
        self._new += YOUNG_OBJECTS_MAX
        if info["generation"] == 0 and time.thread_time() - self._began_s < LONG_LOOK_S:
            return
        gc.freeze()
        # Counting them takes a while, too.
        if self._new > max(self._most - self._counted, self._most // 8):
            self._new = 0
            if not self._loop.is_closed():
                self._loop.call_soon_threadsafe(self._look_at_all_if_many)

    def _look_at_all_if_many(self) -> None:
        self._counted = gc.get_freeze_count()
        if self._counted > self._most:
            gc.unfreeze()
            gc.collect()  # its end freezes what is left
            self._counted = gc.get_freeze_count()
            self._most = max(OLD_OBJECTS_MIN, 2 * self._counted)
            self._new = 0
