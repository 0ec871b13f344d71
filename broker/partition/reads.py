"""Reading behind the tail cache: open log readers, kept where their consumers will go on.

A consumer reads forward, so the reader that served offset N is kept under the offset that comes
next, and the next fetch finds it in place, its read-ahead under way. Bounded in number, kept
ones and those in use each, because a reader may hold two chunks of read-ahead; the one used longest
ago is closed first. A reader belongs to one call at a time.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from broker.partition.found import NOTHING, Found
from core.errors import CoreError
from core.log.log import Log
from core.log.reader import LogReader
from protocol.distributedlog.dlsn import DLSN
from protocol.ids import Buffer, Offset


class ReadRange(NamedTuple):
    """What to read: whole batches from the one that holds `offset`, all below `end`."""

    offset: Offset
    end: Offset
    max_bytes: int
    at_least_one: bool = True
    """The first batch is returned even if it is larger than `max_bytes`."""


class _Cursor:
    """An open reader, and what it returned beyond what was asked for."""

    __slots__ = ("ahead", "next_offset", "reader")

    def __init__(self, reader: LogReader, next_offset: Offset) -> None:
        self.reader = reader
        self.next_offset = next_offset
        self.ahead: list[tuple[Offset, Buffer]] = []  # last offset and bytes of each batch


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
        self, log: Log, span: ReadRange, locate: Callable[[], Awaitable[DLSN | None]]
    ) -> Found:
        """Return batches; none if the log does not show any in the range yet.

        `locate`: finds a position at or before `span.offset`, for when no reader stands there.
        Errors: CoreError. Cancel: the reader is closed later.
        """
        async with self._turns:
            return await self._read(log, span, locate)

    async def _read(
        self, log: Log, span: ReadRange, locate: Callable[[], Awaitable[DLSN | None]]
    ) -> Found:
        cursor = self._cursors.pop((log, span.offset), None)
        if cursor is None:
            start = await locate()
            if start is None:
                return NOTHING
            cursor = _Cursor(await log.open_reader(start), span.offset)
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
    while True:
        if not cursor.ahead:
            records = await cursor.reader.read(max(span.max_bytes - size, 1))
            first = span.offset
            cursor.ahead = [(r.txid, r.payload) for _, r in records if r.txid >= first]
            if not records:
                return Found(found, size, limited=False)
        taken = 0
        for last_offset, data in cursor.ahead:
            if last_offset >= span.end:
                break
            if size + len(data) > span.max_bytes and (found or not span.at_least_one):
                break
            found.append(data)
            size += len(data)
            taken += 1
            cursor.next_offset = last_offset + 1
        limited = taken < len(cursor.ahead)
        del cursor.ahead[:taken]
        if limited or size >= span.max_bytes:
            return Found(found, size, limited=True)
