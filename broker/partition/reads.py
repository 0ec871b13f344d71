"""Reading behind the tail cache: open log readers, kept where their consumers will go on.

A consumer reads forward, so the reader that served offset N is kept under the offset that comes
next, and the next fetch finds it in place, its read-ahead under way. Bounded in number, kept
ones and those in use each, because a reader may hold two chunks of read-ahead; the one used longest
ago is closed first. A reader belongs to one call at a time.
"""

import asyncio
from bisect import bisect_left
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, NamedTuple

from broker.partition.found import NOTHING, Found, fitting
from core.errors import CoreError
from core.log.log import Log
from core.log.reader import LogReader
from core.log.resume import Place
from protocol.ids import Buffer, Offset

if TYPE_CHECKING:
    from core.log.entries import EntryRecords


class ReadRange(NamedTuple):
    """What to read: whole batches from the one that holds `offset`, all below `end`."""

    offset: Offset
    end: Offset
    max_bytes: int
    at_least_one: bool = True
    """The first batch is returned even if it is larger than `max_bytes`."""


class _Cursor:
    """An open reader, and what it returned beyond what was asked for."""

    __slots__ = ("ahead", "next_offset", "reader", "rewrites")

    def __init__(self, reader: LogReader, next_offset: Offset, rewrites: int) -> None:
        self.reader = reader
        self.rewrites = rewrites
        """What `Log.rewrites` said then."""
        self.next_offset = next_offset
        self.ahead: deque[EntryRecords] = deque()  # a record is a batch, its txid the last offset


class OpenReaders:
    """The open readers of all partitions."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._turns = asyncio.Semaphore(limit)  # those in use are not among the kept ones
        # By log, not by its name: a topic that was made again has another log of that name.
        self._cursors: OrderedDict[tuple[Log, Offset], _Cursor] = OrderedDict()
        self._leaving: list[_Cursor] = []  # to be closed by whoever waits next

    def __len__(self) -> int:
        return len(self._cursors)

    async def read(
        self, log: Log, span: ReadRange, locate: Callable[[], Awaitable[Place | None]]
    ) -> Found:
        """Return batches; none if the log does not show any in the range yet.

        `locate`: finds a position at or before `span.offset`, for when no reader stands there.
        Errors: CoreError. Cancel: the reader is closed later.
        """
        async with self._turns:
            return await self._read(log, span, locate)

    async def _read(
        self, log: Log, span: ReadRange, locate: Callable[[], Awaitable[Place | None]]
    ) -> Found:
        cursor = self._cursors.pop((log, span.offset), None)
        if cursor is not None and cursor.rewrites != log.rewrites:
            self._leaving.append(cursor)  # it holds batches that may be cleaned by now
            cursor = None
        if cursor is None:
            near = await locate()
            if near is None:
                return NOTHING
            rewrites = log.rewrites
            cursor = _Cursor(await log.open_reader(span.offset, near), span.offset, rewrites)
        whole = False
        try:
            found = await _collect(cursor, span)
            whole = True
        finally:
            if not whole:
                self._leaving.append(cursor)
        self._keep(log, cursor)
        await self._close_leaving()
        return found

    async def forget(self, log: Log) -> None:
        """Close the readers of a log. Errors: none."""
        for key in [key for key in self._cursors if key[0] is log]:
            self._leaving.append(self._cursors.pop(key))
        await self._close_leaving()

    async def close(self) -> None:
        """Close all readers. Errors: none."""
        self._leaving.extend(self._cursors.values())
        self._cursors.clear()
        await self._close_leaving()

    def _keep(self, log: Log, cursor: _Cursor) -> None:
        key = (log, cursor.next_offset)
        twin = self._cursors.pop(key, None)  # two consumers met; one reader is enough
        if twin is not None:
            self._leaving.append(twin)
        self._cursors[key] = cursor
        while len(self._cursors) > self._limit:
            self._leaving.append(self._cursors.popitem(last=False)[1])

    async def _close_leaving(self) -> None:
        while self._leaving:
            cursor = self._leaving.pop()
            try:
                await cursor.reader.close()
            except CoreError:
                continue  # it was only read from: nothing is lost with it


async def _collect(cursor: _Cursor, span: ReadRange) -> Found:
    """Read forward until the range, its bytes, or what the log shows is used up."""
    found: list[Buffer] = []
    size = 0
    ahead = cursor.ahead
    while ahead or await _read_on(cursor, span, span.max_bytes - size):
        entry = ahead.popleft()
        txids, payloads = entry.columns.txids, entry.columns.payloads
        below = bisect_left(txids, span.end)
        count, more = fitting(
            payloads[:below],
            span.max_bytes - size,
            at_least_one=span.at_least_one and not found,
        )
        found += payloads[:count]
        size += more
        if count:
            cursor.next_offset = txids[count - 1] + 1
        if count < len(txids):
            ahead.appendleft(entry.behind(count))
            return Found(found, size, limited=count < below)  # else the range ends there
        if size >= span.max_bytes:
            return Found(found, size, limited=True)
    return Found(found, size, limited=False)


async def _read_on(cursor: _Cursor, span: ReadRange, max_bytes: int) -> bool:
    """Get entries, without what lies before the range; False at the tail."""
    entries = await cursor.reader.read_entries(max(max_bytes, 1))
    for entry in entries:
        cursor.ahead.append(entry.behind(bisect_left(entry.columns.txids, span.offset)))
    return bool(entries)
