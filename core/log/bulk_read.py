"""Reading a number of records, waiting for them: DistributedLog's readBulk and readNext.

Source: reference DistributedLog 7.7; AsyncLogReader.readBulk.
"""

import asyncio
from typing import TYPE_CHECKING, Final

from tailrace.core.errors import CoreError
from tailrace.core.log.entries import LogRecordWithDLSN
from tailrace.core.log.reader import LogReader

if TYPE_CHECKING:
    from tailrace.core.log.entries import EntryRecords

_BYTES_AT_ONCE: Final = 64 * 1024


async def read_next(reader: LogReader) -> LogRecordWithDLSN:
    """Return the next record, once there is one. Errors, cancel: as `read_bulk`."""
    return (await read_bulk(reader, 1))[0]


async def read_bulk(reader: LogReader, count: int, wait_ms: int = 0) -> list[LogRecordWithDLSN]:
    """Return the next `count` records; fewer, never none, when no more come for a while.

    `wait_ms`: how long, from the call on, to wait for more than the first; 0: not at all.
    Errors: as LogReader.read_entries. Cancel: nothing is lost; Java's reader dies of it.
    """
    deadline_s = asyncio.get_running_loop().time() + wait_ms / 1000
    taken: list[EntryRecords] = []
    missing = count
    try:
        while missing > 0:
            found = await _read_some(reader, missing)
            taken += found
            missing -= sum(len(entry.slots) for entry in found)
            if not found and not await _wait(reader, deadline_s if taken else None):
                break
    except CoreError:
        if not taken:
            raise  # else it comes again with the next call
    except asyncio.CancelledError:
        reader.give_back(taken)
        raise
    return [record for entry in taken for record in entry.records()]


async def _read_some(reader: LogReader, count: int) -> list["EntryRecords"]:
    """Return at most `count` records, by entry; the rest of what was read comes again."""
    entries = await reader.read_entries(_BYTES_AT_ONCE)
    for number, entry in enumerate(entries):
        if len(entry.slots) > count:
            reader.give_back([entry.behind(count), *entries[number + 1 :]])
            return [*entries[:number], *([entry.before(count)] if count else [])]
        count -= len(entry.slots)
    return entries


async def _wait(reader: LogReader, deadline_s: float | None) -> bool:
    """Wait until there may be more; False when the time is over."""
    if deadline_s is None:
        await reader.wait_for_more()
        return True
    try:
        async with asyncio.timeout_at(deadline_s):
            await reader.wait_for_more()
    except TimeoutError:
        return False
    return True
