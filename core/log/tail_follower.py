"""Hears of what another process writes: one long poll at a time for all readers of a log."""

import asyncio
import logging
from collections.abc import Callable

from core.errors import CoreError
from core.ledger.reader import LedgerReader
from core.runtime.tasks import Tasks

logger = logging.getLogger(__name__)


class TailFollower:
    """Follows a ledger while somebody waits at its tail."""

    def __init__(self, on_moved: Callable[[], None]) -> None:
        """`on_moved` is called when there is more to read, or the ledger was closed."""
        self._on_moved = on_moved
        self._tasks = Tasks("log.tail")
        self._waiting: asyncio.Task[None] | None = None

    def follow(self, ledger: LedgerReader, timeout_ms: int) -> None:
        """Begin to wait, for `timeout_ms`, unless a wait is on its way."""
        if self._waiting is None or self._waiting.done():
            self._waiting = self._tasks.spawn(self._wait(ledger, timeout_ms), "long_poll")

    async def stop(self) -> None:
        """End the wait that is on its way, if any."""
        if self._waiting is not None and not self._waiting.done():
            self._waiting.cancel()
            await asyncio.wait([self._waiting])

    async def _wait(self, ledger: LedgerReader, timeout_ms: int) -> None:
        known = ledger.last_confirmed
        try:
            await ledger.read_last_confirmed_and_entry(known + 1, timeout_ms)
        except CoreError as error:
            # Whoever waits asks again after its own time-out, and hears of the error then.
            logger.info("tail_lost ledger=%d error=%s", ledger.ledger_id, error)
        else:
            if ledger.last_confirmed > known or ledger.is_closed:
                self._on_moved()
