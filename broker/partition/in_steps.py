"""Work of many pieces that others may come between: so many pieces a step of the loop, in order."""

import asyncio
import logging
from collections import OrderedDict, deque
from collections.abc import Hashable, Iterator
from itertools import islice
from typing import Final

logger = logging.getLogger(__name__)

AT_ONCE: Final = 100
"""Pieces in one step of the loop: 5 ms, of batches that are appended."""


class InSteps:
    """One row of work per key; a key without work costs nothing. All calls come from the loop.

    Keys take turns: in a step of the loop one of them goes on, however many there are.
    """

    __slots__ = ("_going_on", "rows")

    def __init__(self) -> None:
        self.rows: OrderedDict[Hashable, deque[Iterator[object]]] = OrderedDict()
        """What is not done, by key."""
        self._going_on = False

    def is_busy(self, key: Hashable) -> bool:
        """Whether work of the key is not done: what must not overtake it has to join it."""
        return key in self.rows

    def start(self, key: Hashable, work: Iterator[object]) -> None:
        """Do the pieces of `work`, one for each `next`, after what the key has: some at once."""
        row = self.rows.get(key)
        if row is not None:
            row.append(work)
            return
        self.rows[key] = deque([work])
        self._do(key)
        if self.rows and not self._going_on:
            self._going_on = True
            asyncio.get_running_loop().call_soon(self._go_on)

    def _go_on(self) -> None:
        self._do(next(iter(self.rows)))
        self._going_on = bool(self.rows)
        if self._going_on:
            asyncio.get_running_loop().call_soon(self._go_on)

    def _do(self, key: Hashable) -> None:
        """Do so many pieces of a key; if there are more, it is the last in line then."""
        row = self.rows[key]
        left = AT_ONCE
        while row and left:
            done = 0
            try:
                done = sum(1 for _ in islice(row[0], left))
            except Exception:  # a bug costs its own work only
                logger.exception("work failed key=%s", key)
            if done < left:
                row.popleft()
            left -= done
        if row:
            self.rows.move_to_end(key)
        else:
            del self.rows[key]
