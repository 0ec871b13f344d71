"""How much room the bookies have: what DescribeLogDirs says of the one place of all data."""

import asyncio
import logging
from typing import Final, NamedTuple, Protocol

from tailrace.broker.cluster.admin import AvailableBookies
from tailrace.core.ledger.bookie_client import BookieClient, ask
from tailrace.protocol.bookkeeper.messages import BookieInfo, BookieInfoRequest, BookieInfoResponse
from tailrace.protocol.ids import BookieId

logger = logging.getLogger(__name__)

WAIT_S: Final = 2.0
"""How long the bookies have to tell their room; they look at their disks."""

_WANTED: Final = BookieInfo.TOTAL_DISK_CAPACITY | BookieInfo.FREE_DISK_SPACE


class Room(NamedTuple):
    """Bytes on disks; -1 where it is not known."""

    total_bytes: int
    usable_bytes: int


UNKNOWN: Final = Room(-1, -1)


class AskedBookies(AvailableBookies, Protocol):
    """Bookies that can be asked something."""

    def client(self, bookie_id: BookieId) -> BookieClient:
        """Return the way to a bookie."""


async def room_of(bookies: AskedBookies) -> Room:
    """Return the room of all bookies that can be written to, UNKNOWN unless all tell.

    Errors: CoreError. Cost: one request to each, within `WAIT_S`.
    """
    asked = [
        ask(bookies.client(bookie), BookieInfoRequest(_WANTED))
        for bookie in await bookies.available()
    ]
    if asked:
        await asyncio.wait(asked, timeout=WAIT_S)
    total = usable = 0
    for answer in asked:
        told = answer.result() if answer.done() else None
        if not isinstance(told, BookieInfoResponse) or told.total_disk_capacity is None:
            logger.info("room of a bookie is not known answer=%r", told)
            return UNKNOWN
        total += told.total_disk_capacity
        usable += told.free_disk_space or 0
    return Room(total, usable) if asked else UNKNOWN
