"""What keeps a log short, and in cold storage: by itself for streams without topics, or when told.

A stream's own settings say how long it is kept: its writer sees to that at its start and whenever
a segment was completed. For topics the broker's retention calls the same doors.
"""

import asyncio
import logging

from tailrace.core.errors import CoreError
from tailrace.core.log.cold_copy import ColdCopier
from tailrace.core.log.cold_restore import ColdRestorer
from tailrace.core.log.context import LogContext
from tailrace.core.log.trimmer import LogTrimmer, SegmentHome
from tailrace.core.metadata.layout import LogPaths
from tailrace.core.runtime.tasks import Tasks
from tailrace.protocol.ids import TxId

logger = logging.getLogger(__name__)


class LogUpkeep:
    """The upkeep of one log: one round at a time, and one more if something came meanwhile."""

    def __init__(self, home: SegmentHome, paths: LogPaths, context: LogContext) -> None:
        self.trimmer = LogTrimmer(home, paths, context)
        self._paths = paths
        self._context = context
        self._copier = ColdCopier(home, paths, context)
        self._tasks = Tasks("log.upkeep")
        self._running: asyncio.Task[None] | None = None
        self._is_asked = False

    async def copy_to_cold(self, before: TxId | None = None) -> list[int]:
        """Copy completed segments to cold storage; return the LSSNs. Errors: as ColdCopier's.

        `before`: only those whose records all have smaller txids.
        """
        return await self._copier.copy_completed(before)

    async def restore(self, from_lssn: int) -> list[int]:
        """Write segments back to ledgers; return the LSSNs. Errors: as ColdRestorer's."""
        return await ColdRestorer(self._paths, self._context).restore(from_lssn)

    def ask(self) -> None:
        """Have a round begin now, or after the one that runs."""
        self._is_asked = True
        if self._running is None or self._running.done():
            self._running = self._tasks.spawn(self._rounds(), "rounds")

    async def round(self) -> None:
        """Do everything once. Errors: CoreError; what is left is for the next round."""
        if self._context.config.cold_storage:
            await self.copy_to_cold()
        await self.trimmer.purge_expired()

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
                logger.warning("upkeep_failed log=%s error=%r", self._paths.log, error)
