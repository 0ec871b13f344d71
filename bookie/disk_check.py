"""Looks at the room on a bookie's disks, over and over."""

import asyncio
import logging

from bookie.health import Health
from bookie.storage import Storage

logger = logging.getLogger(__name__)


class DiskCheck:
    """Tells the health of a bookie what room there is. One `run` at a time."""

    def __init__(self, storage: Storage, health: Health, interval_ms: int) -> None:
        self._storage = storage
        self._health = health
        self._interval_s = interval_ms / 1000

    async def run(self) -> None:
        """Look every interval, until cancelled."""
        while True:
            await asyncio.sleep(self._interval_s)
            await self.look()

    async def look(self) -> None:
        """Look once. Disks that cannot even be asked change nothing: writes to them will fail."""
        try:
            rooms = await self._storage.rooms()
        except OSError as error:
            logger.warning("disk_check_failed error=%s", error)
        else:
            self._health.on_rooms(rooms)
