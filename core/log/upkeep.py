"""What a log's writer does beside writing when a segment was completed: copy, purge, delete.

For streams without topics: their settings say how long they are kept. A broker's retention calls
the same doors of the log for its partitions.
"""

import asyncio
import logging
from typing import Final

from core.errors import CoreError
from core.log.cold_copy import ColdCopier
from core.log.trimmer import LogTrimmer
from core.runtime.tasks import Tasks

logger = logging.getLogger(__name__)

_NAME: Final = "log.upkeep"


class LogUpkeep:
    """The upkeep of one log: one round at a time, and one more if something came meanwhile."""

    def __init__(self, name: str, trimmer: LogTrimmer, copier: ColdCopier | None) -> None:
        """`copier`: None if the log is not copied to cold storage."""
        self._name = name
        self._trimmer = trimmer
        self._copier = copier
        self._tasks = Tasks(_NAME)
        self._running: asyncio.Task[None] | None = None
        self._is_asked = False

    def ask(self) -> None:
        """Have a round begin now, or after the one that runs."""
        self._is_asked = True
        if self._running is None or self._running.done():
            self._running = self._tasks.spawn(self._rounds(), "rounds")

    async def round(self) -> None:
        """Do everything once. Errors: CoreError; what is left is for the next round."""
        if self._copier is not None:
            await self._copier.copy_completed()
        await self._trimmer.purge_expired()

    async def idle(self) -> None:
        """Wait for the round that runs, and those that were asked for."""
        if self._running is not None:
            await asyncio.wait([self._running])

    async def close(self) -> None:
        """End the round that runs. What it did stays done."""
        await self._tasks.close()

    async def _rounds(self) -> None:
        while self._is_asked:
            self._is_asked = False
            try:
                await self.round()
            except CoreError as error:
                logger.warning("upkeep_failed log=%s error=%r", self._name, error)
