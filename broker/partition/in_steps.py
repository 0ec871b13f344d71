"""Work of many pieces that others may come between: so many pieces a step of the loop, in order."""

import asyncio
import logging
from collections import deque
from collections.abc import Hashable, Iterator
from itertools import islice
from typing import Final

logger = logging.getLogger(__name__)

AT_ONCE: Final = 200
"""Pieces in one step of the loop: 10 ms, of batches that are appended."""


class InSteps:
    """One row of work per key; a key without work costs nothing. All calls come from the loop."""

    __slots__ = ("_rows",)

    def __init__(self) -> None:
        self._rows: dict[Hashable, deque[Iterator[object]]] = {}

    def is_busy(self, key: Hashable) -> bool:
        """Whether work of the key is not done: what must not overtake it has to join it."""
        return bool(self._rows) and key in self._rows

    def start(self, key: Hashable, work: Iterator[object]) -> None:
        """Do the pieces of `work`, one for each `next`, after what the key has: some at once."""
        row = self._rows.get(key)
        if row is not None:
            row.append(work)
            return
        self._rows[key] = deque([work])
        self._go_on(key)

    def _go_on(self, key: Hashable) -> None:
        row = self._rows[key]
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
            asyncio.get_running_loop().call_soon(self._go_on, key)
        else:
            del self._rows[key]
