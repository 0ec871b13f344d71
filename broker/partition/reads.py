"""Reading behind the tail cache: open log readers, kept where their consumers will go on.

A consumer reads forward, so the reader that served offset N is kept under the offset that comes
next, and the next fetch finds it in place, with what was read ahead. That is asked for when a
whole answer is collected: bookies and this process then work while its client takes it apart, and
what it waited for did not stand behind. Bounded in number, kept
ones and those in use each, because a reader may hold two chunks of read-ahead; the one used longest
ago is closed first. A reader belongs to one call at a time.
Who is not known to come back soon (`bookmarks.py`) gets what he asks for and no reader that stays;
nor does who has come to the tail cache: what was read ahead for him is there (6 partitions: 58 MB).
"""

import asyncio
from bisect import bisect_left
from collections.abc import Awaitable, Callable
from functools import partial
from typing import NamedTuple

from tailrace.broker.partition.bookmarks import Bookmark, Bookmarks
from tailrace.broker.partition.found import NOTHING, NOTHING_FITS, Found, fitting
from tailrace.broker.partition.kept_readers import READS_ON_BYTES, Cursor, KeptReaders
from tailrace.core.errors import CoreError
from tailrace.core.log.log import Log
from tailrace.core.log.reader_settings import ReadRules
from tailrace.core.log.resume import Place
from tailrace.protocol.ids import Buffer, Offset
from tailrace.protocol.records.batch import read_header


class ReadRange(NamedTuple):
    """What to read: whole batches from the one that holds `offset`, all below `end`."""

    offset: Offset
    end: Offset
    max_bytes: int
    at_least_one: bool = True
    """The first batch is returned even if it is larger than `max_bytes`."""


class Source(NamedTuple):
    """The log to read, and what is known of where things are in it."""

    log: Log
    marks: Bookmarks
    locate: Callable[[Offset], Awaitable[Place | None]]
    """Finds a position at or before an offset, for when nobody left a bookmark there."""
    in_memory: Callable[[Offset], bool]
    """Whether the tail cache serves who goes on at an offset: no reader need stay for them."""


class OpenReaders:
    """The open readers of all partitions."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._turns = asyncio.Semaphore(limit)  # those in use are not among the kept ones
        self._reads_total = 0
        self._kept = KeptReaders(limit)
        self._used: dict[Cursor, Log] = {}
        self._leaving: list[Cursor] = []  # to be closed by whoever waits next

    def __len__(self) -> int:
        return len(self._kept)

    async def read(self, source: Source, span: ReadRange) -> Found:
        """Return batches; none if the log does not show any in the range yet.

        Errors: CoreError. Cancel: the reader is closed later. Cost: nothing is read if the next
        batch was seen before, and is too large.
        """
        mark = None if span.at_least_one else source.marks.find(span.offset)
        rewrites = source.log.rewrites
        if mark is not None and mark.is_cut_off(span.max_bytes, span.end, rewrites):
            return NOTHING_FITS
        async with self._turns:
            self._reads_total += 1
            return await self._read(source, span)

    async def _read(self, source: Source, span: ReadRange) -> Found:
        log = source.log
        cursor = self._take(log, span.offset) or await self._open(source, span.offset)
        if cursor is None:
            return NOTHING
        cursor.read_number = self._reads_total
        self._used[cursor] = log
        whole = False
        try:
            found = await _collect(cursor, span)
            whole = True
        finally:
            is_wanted = self._used.pop(cursor, None) is not None
            if not whole:
                self._leaving.append(cursor)
        if cursor.is_new and found.limited:
            cursor.stays = found.size >= READS_ON_BYTES
        if cursor.stays and is_wanted and not source.in_memory(cursor.next_offset):
            self._keep(log, cursor)
        else:
            self._let_go(log, cursor)
        await self._close_leaving()
        return found

    def _take(self, log: Log, offset: Offset) -> Cursor | None:
        """Return the reader that was kept at an offset, which is in use now."""
        cursor = self._kept.take((log, offset))
        if cursor is not None and cursor.rewrites != log.rewrites:
            self._leaving.append(cursor)  # it holds batches that may be cleaned by now
            return None
        return cursor

    async def _open(self, source: Source, offset: Offset) -> Cursor | None:
        """Return another reader; None if there is nothing at the offset."""
        mark = source.marks.take(offset)
        near = await source.locate(offset) if mark is None else mark.place
        if near is None:
            return None
        rewrites = source.log.rewrites
        rules = ReadRules(covers=partial(_begins_by, offset))
        reader = await source.log.open_reader(offset, near, reads_ahead=False, rules=rules)
        cursor = Cursor(reader, offset, rewrites, source.marks)
        cursor.is_new = mark is None
        cursor.stays = mark is not None and mark.is_recent(self._reads_total, self._limit)
        return cursor

    def ask_ahead(self) -> None:
        """Have kept readers read on that were used since they did. Errors: none.

        For who has all that he asked for. Cost: tens of us for each such reader.
        """
        for (log, _), cursor in self._kept.items():
            if cursor.rests and cursor.rewrites == log.rewrites:
                cursor.rests = False
                cursor.reader.ask_ahead()

    async def forget(self, log: Log) -> None:
        """Close the readers of a log; those in use when that is over. Errors: none."""
        for cursor in [cursor for cursor, its_log in self._used.items() if its_log is log]:
            del self._used[cursor]
        for key in [key for key, _ in self._kept.items() if key[0] is log]:
            kept = self._kept.take(key)
            if kept is not None:
                self._leaving.append(kept)
        await self._close_leaving()

    async def close(self) -> None:
        """Close all readers. Errors: none."""
        self._leaving += self._kept.clear()
        await self._close_leaving()

    def _keep(self, log: Log, cursor: Cursor) -> None:
        cursor.rests = True
        for (its_log, _), gone in self._kept.keep((log, cursor.next_offset), cursor):
            self._let_go(its_log, gone)

    def _let_go(self, log: Log, cursor: Cursor) -> None:
        """Have a reader closed, and note where its consumer goes on."""
        self._leaving.append(cursor)
        at = cursor.next_place
        segment = None if at is None else log.segments.find(at.lssn)
        if at is None or segment is None or cursor.rewrites != log.rewrites:
            return  # nobody knows in which ledger that is
        place = Place(at, segment.ledger_id)
        mark = Bookmark(place, cursor.read_number, cursor.rewrites, *cursor.next_batch)
        cursor.marks.leave(cursor.next_offset, mark)

    async def _close_leaving(self) -> None:
        while self._leaving:
            cursor = self._leaving.pop()
            try:
                await cursor.reader.close()
            except CoreError:
                continue  # it was only read from: nothing is lost with it


def _begins_by(offset: Offset, batch: Buffer) -> bool:
    """Tell whether a batch begins at an offset or before it."""
    return read_header(batch).base_offset <= offset


async def _collect(cursor: Cursor, span: ReadRange) -> Found:
    """Read forward until the range, its bytes, or what the log shows is used up."""
    found: list[Buffer] = []
    size = 0
    ahead = cursor.ahead
    while ahead or await _read_on(cursor, span, span.max_bytes - size):
        entry = ahead.popleft()
        txids, payloads = entry.columns.txids, entry.columns.payloads
        count, more = len(txids), entry.payload_bytes
        below = count if not count or txids[-1] < span.end else bisect_left(txids, span.end)
        if below < count or size + more > span.max_bytes:
            room = span.max_bytes - size
            at_least_one = span.at_least_one and not found
            count, more = fitting(payloads[:below], room, at_least_one=at_least_one)
            payloads = payloads[:count]
        found += payloads
        size += more
        if count:
            cursor.next_offset = txids[count - 1] + 1
        cursor.next_entry = (entry.lssn, entry.entry_id + 1)
        if count < len(txids):
            ahead.appendleft(entry.behind(count))
            return Found(found, size, limited=count < below)  # else the range ends there
        if found and size >= span.max_bytes:
            return Found(found, size, limited=cursor.next_offset < span.end)
    return Found(found, size, limited=False)


async def _read_on(cursor: Cursor, span: ReadRange, max_bytes: int) -> bool:
    """Get entries, without what lies before the range; False at the tail."""
    entries = await cursor.reader.read_entries(max(max_bytes, 1))
    for entry in entries:
        cursor.ahead.append(entry.behind(bisect_left(entry.columns.txids, span.offset)))
    return bool(entries)
