"""Reading behind the tail cache: open log readers, kept where their consumers will go on.

A consumer reads forward, so the reader that served offset N is kept under the offset that comes
next, and the next fetch finds it in place, with what was read ahead. That is asked for when the
whole answer is collected: bookies and this process then work while the client takes it apart, and
nothing that it waits for stands behind. Bounded in number, kept
ones and those in use each, because a reader may hold two chunks of read-ahead; the one used longest
ago is closed first. A reader belongs to one call at a time.
Who is not known to come back soon (`bookmarks.py`) gets what he asks for and no reader that stays;
nor does who has come to the tail cache: what was read ahead for him is there (6 partitions: 58 MB).
"""

import asyncio
from bisect import bisect_left
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final, NamedTuple

from broker.partition.bookmarks import Bookmark, Bookmarks
from broker.partition.found import NOTHING, NOTHING_FITS, Found, fitting
from core.errors import CoreError
from core.log.log import Log
from core.log.reader import LogReader
from core.log.resume import Place
from protocol.distributedlog.dlsn import DLSN
from protocol.ids import Buffer, EntryId, Offset

if TYPE_CHECKING:
    from core.log.entries import EntryRecords


READS_ON_BYTES: Final = 256 * 1024
"""Who is new, takes so much and leaves more gets a reader that stays: he catches up. (Nobody knows
yet whether he comes back before others take its place; from then on a bookmark tells.)"""
ENOUGH: Final = 3 / 4
"""Of what a call asks for: the rest is not worth another round trip to the bookies. Pieces are cut
by the average entry, so that the last one or two of a call are often missing."""


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


class _Cursor:
    """An open reader, and what it returned beyond what was asked for."""

    __slots__ = (
        "ahead", "is_new", "marks", "next_entry", "next_offset", "read_number", "reader", "rests",
        "rewrites", "stays",
    )  # fmt: skip

    def __init__(
        self, reader: LogReader, next_offset: Offset, rewrites: int, marks: Bookmarks
    ) -> None:
        self.reader = reader
        self.marks = marks
        """Where one is left when this reader does not stay."""
        self.next_entry: tuple[int, EntryId] | None = None
        """(lssn, entry id) behind what was returned last, if that ended with its entry."""
        self.rewrites = rewrites
        """What `Log.rewrites` said then."""
        self.read_number = 0
        """How many reads there had been when it was used last."""
        self.next_offset = next_offset
        self.is_new = False
        """Whether nobody knows of its consumer."""
        self.stays = False
        """Whether it is kept for its consumer."""
        self.rests = False
        """Whether nothing was asked for since it was used."""
        self.ahead: deque[EntryRecords] = deque()  # a record is a batch, its txid the last offset

    @property
    def next_place(self) -> DLSN | None:
        """Where the next batch is; None if none was read."""
        if self.ahead and self.ahead[0].slots:
            entry = self.ahead[0]
            return DLSN(entry.lssn, entry.entry_id, entry.slots[0])
        return None if self.next_entry is None else DLSN(*self.next_entry, 0)

    @property
    def next_batch(self) -> tuple[int, Offset]:
        """How large the batch is that comes next, and its last offset; zeros: it was not read."""
        if not self.ahead or not self.ahead[0].slots:
            return 0, 0
        columns = self.ahead[0].columns
        return len(columns.payloads[0]), columns.txids[0]


class OpenReaders:
    """The open readers of all partitions."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._turns = asyncio.Semaphore(limit)  # those in use are not among the kept ones
        self._reads_total = 0
        # By log, not by its name: a topic that was made again has another log of that name.
        self._cursors: OrderedDict[tuple[Log, Offset], _Cursor] = OrderedDict()
        self._leaving: list[_Cursor] = []  # to be closed by whoever waits next

    def __len__(self) -> int:
        return len(self._cursors)

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
        whole = False
        try:
            found = await _collect(cursor, span)
            whole = True
        finally:
            if not whole:
                self._leaving.append(cursor)
        if cursor.is_new:
            cursor.is_new, cursor.stays = False, found.limited and found.size >= READS_ON_BYTES
        if cursor.stays and not source.in_memory(cursor.next_offset):
            self._keep(log, cursor)
        else:
            self._let_go(log, cursor)
        await self._close_leaving()
        return found

    def _take(self, log: Log, offset: Offset) -> _Cursor | None:
        """Return the reader that was kept at an offset, which is in use now."""
        cursor = self._cursors.pop((log, offset), None)
        if cursor is not None and cursor.rewrites != log.rewrites:
            self._leaving.append(cursor)  # it holds batches that may be cleaned by now
            return None
        return cursor

    async def _open(self, source: Source, offset: Offset) -> _Cursor | None:
        """Return another reader; None if there is nothing at the offset."""
        mark = source.marks.take(offset)
        near = await source.locate(offset) if mark is None else mark.place
        if near is None:
            return None
        rewrites = source.log.rewrites
        reader = await source.log.open_reader(offset, near, reads_ahead=False)
        cursor = _Cursor(reader, offset, rewrites, source.marks)
        cursor.is_new = mark is None
        cursor.stays = mark is not None and mark.is_recent(self._reads_total, self._limit)
        return cursor

    def ask_ahead(self) -> None:
        """Have kept readers read on that were used since they did. Errors: none.

        For who has all that he asked for. Cost: tens of us for each such reader.
        """
        for cursor in self._cursors.values():
            if cursor.rests:
                cursor.rests = False
                cursor.reader.ask_ahead()

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
        cursor.rests = True
        while len(self._cursors) > self._limit:
            (its_log, _), longest_ago = self._cursors.popitem(last=False)
            self._let_go(its_log, longest_ago)

    def _let_go(self, log: Log, cursor: _Cursor) -> None:
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


async def _collect(cursor: _Cursor, span: ReadRange) -> Found:
    """Read forward until the range, its bytes, or what the log shows is used up."""
    found: list[Buffer] = []
    size = 0
    enough = ENOUGH * span.max_bytes
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
        if size >= span.max_bytes or (size >= enough and not ahead):
            return Found(found, size, limited=cursor.next_offset < span.end)
    return Found(found, size, limited=False)


async def _read_on(cursor: _Cursor, span: ReadRange, max_bytes: int) -> bool:
    """Get entries, without what lies before the range; False at the tail."""
    entries = await cursor.reader.read_entries(max(max_bytes, 1))
    for entry in entries:
        cursor.ahead.append(entry.behind(bisect_left(entry.columns.txids, span.offset)))
    return bool(entries)
