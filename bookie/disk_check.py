"""Looks at the room on a bookie's disks, over and over: the less there is, the more often.

What lies behind the limit is for journals, index files, metadata, and the copies of compaction,
without which nothing that is deleted frees room. So adds must not fill it between two looks.
"""

import asyncio
import logging
from typing import Final

from tailrace.bookie.health import Health
from tailrace.bookie.storage import Storage
from tailrace.core.runtime.forever import Forever

logger = logging.getLogger(__name__)

BYTES_PER_S: Final = 1_000_000_000
"""No bookie writes faster."""
SHORTEST_S: Final = 0.05


class DiskCheck:
    """Tells the health of a bookie what room there is. One `run` at a time."""

    def __init__(self, storage: Storage, health: Health, interval_ms: int) -> None:
        self._storage = storage
        self._health = health
        self._interval_s = interval_ms / 1000
        self._forever = Forever("bookie.disk_check")
        self._knows = True
        """Whether the last look has told anything."""

    async def run(self) -> None:
        """Look every interval at least, until cancelled."""
        await self._forever.run(self._look_later)

    async def _look_later(self) -> None:
        await asyncio.sleep(self.pause_s())
        await self.look()

    def pause_s(self) -> float:
        """Return how long to wait until the next look."""
        if self._health.is_read_only or not self._knows:
            return self._interval_s
        until_full_s = self._health.bytes_until_full / BYTES_PER_S
        return min(self._interval_s, max(SHORTEST_S, until_full_s))

    async def look(self) -> None:
        """Look once. Disks that cannot even be asked change nothing: writes to them will fail."""
        try:
            rooms = await self._storage.rooms()
        except OSError as error:
            self._knows = False
            logger.warning("disk_check_failed error=%s", error)
        else:
            self._knows = True
            self._health.on_rooms(rooms)
