"""Reading a log in order: entries into records, one segment after the other, never past the LAC.

Invariant: every confirmed record from the start position on is given out once, in order; control
records never. A segment is left only when its end is fixed and everything up to it was given out.
Source: reference DistributedLog 7.3, 7.4.
"""

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Protocol

from core.errors import CoreError, EndOfStream, LedgerNotFound, LogTruncated, Unavailable
from core.log.config import LogConfig
from core.log.entries import EntryRecords, LogRecordWithDLSN, visible_records
from core.log.read_ahead import ReadAhead
from core.log.segment_view import SegmentView
from core.log.segments import SegmentList
from core.runtime.tasks import Tasks
from protocol.distributedlog.dlsn import DLSN
from protocol.distributedlog.record import HEADER_SIZE

if TYPE_CHECKING:
    from protocol.bookkeeper.entry import Entry


class ReadableLog(Protocol):
    """The log that a reader reads."""

    @property
    def segments(self) -> SegmentList:
        """All segments, as far as this process knows."""

    @property
    def tail_version(self) -> int:
        """Rises with everything that may have made more readable."""

    async def refresh(self) -> None:
        """Read the list of segments again if it may have changed."""

    async def view(self, lssn: int) -> SegmentView:
        """Open a segment for reading. Errors: LogTruncated, LedgerNotFound."""

    async def tail_moved(self, seen_version: int) -> None:
        """Wait until `tail_version` is another, or for a while if others write the log."""


class LogReader:
    """Reads from one position on. One call at a time."""

    def __init__(self, log: ReadableLog, start: DLSN, config: LogConfig) -> None:
        self._log = log
        self._config = config
        self._tasks = Tasks("log.reader")
        self._start = start
        self._is_positioned = False
        self._view: SegmentView | None = None
        self._ahead: ReadAhead | None = None
        self._entries: deque[Entry] = deque()  # read, in the segment of the view
        self._ready: deque[EntryRecords] = deque()  # taken apart, before those
        self._is_sealed = False  # behind what is ready
        self._seen_version = -1
        self._is_closed = False

    async def read(self, max_bytes: int) -> list[LogRecordWithDLSN]:
        """Return the next confirmed records, of `max_bytes` at most, or one that is larger.

        [] at the tail. Errors, shape, cancel: as `read_entries`.
        """
        taken: list[LogRecordWithDLSN] = []
        left = max_bytes
        entries = await self.read_entries(max_bytes)
        for number, entry in enumerate(entries):
            for index, found in enumerate(entry.records()):
                left -= HEADER_SIZE + len(found.record.payload)
                if left < 0 and taken:
                    rest = (entry.behind(index), *entries[number + 1 :])
                    self._ready.extendleft(reversed(rest))
                    return taken
                taken.append(found)
        return taken

    async def read_entries(self, max_bytes: int) -> list[EntryRecords]:
        """Return the next confirmed records by entry: whole entries, until `max_bytes` are reached.

        [] at the tail; no entry is empty. Payloads are views, valid as long as they are held.
        Errors: LogTruncated when the segment was purged under the reader; EndOfStream after the
        last record of a sealed log; BookieUnavailable, CorruptData. After an error the same read
        may be tried again. Cancel: nothing is lost.
        """
        if self._is_closed:
            raise Unavailable("the reader is closed")
        self._seen_version = self._log.tail_version
        taken: list[EntryRecords] = []
        try:
            await self._take(taken, max_bytes)
        except CoreError:
            if not taken:
                raise  # else it comes again with the next read
        except asyncio.CancelledError:
            self._ready.extendleft(reversed(taken))
            raise
        return taken

    async def wait_for_more(self) -> None:
        """Return when a read may give more than the last one did, sooner if in doubt."""
        await self._log.tail_moved(self._seen_version)

    async def close(self) -> None:
        """End what is on its way. Idempotent."""
        self._is_closed = True
        await self._tasks.close()

    async def _take(self, taken: list[EntryRecords], left: int) -> None:
        ready = self._ready
        while left > 0 and (ready or await self._fill(left)):
            taken.append(ready.popleft())
            left -= taken[-1].size_bytes

    async def _fill(self, max_bytes: int) -> bool:
        """Get records ready; False at the tail."""
        while not self._ready:
            if self._is_sealed:
                raise EndOfStream(f"the log was sealed in segment {self._start.lssn}")
            if self._entries:
                self._take_apart()
            elif not await self._read_on(max_bytes):
                return False
        return True

    async def _read_on(self, max_bytes: int) -> bool:
        """Get entries, or to the next segment; False at the tail."""
        if self._view is None and not await self._enter_segment():
            return False
        assert self._view is not None
        try:
            return await self._read_entries(self._view, max_bytes)
        except LedgerNotFound as error:
            await self._on_ledger_gone(self._view, error)
            return True

    def _take_apart(self) -> None:
        """Make the next entry's records ready. Errors: CorruptData: the entry stays the next."""
        assert self._view is not None, "entries of a segment that was left"
        entry = self._entries[0]
        records = visible_records(self._view.metadata, entry)
        self._entries.popleft()
        if entry.entry_id == self._start.entry_id:
            records = records.from_slot(self._start.slot)
        self._is_sealed = records.is_last
        if records.slots:
            self._ready.append(records)

    async def _enter_segment(self) -> bool:
        """Open the segment of the position; False when it does not exist yet."""
        log = self._log
        if not self._is_positioned:
            await log.refresh()
            self._start = log.segments.readable_from(self._start)
        segment = log.segments.at_or_after(self._start.lssn)
        if segment is None:
            await log.refresh()
            segment = log.segments.at_or_after(self._start.lssn)
            if segment is None:
                return False
        if segment.lssn != self._start.lssn:
            if self._is_positioned:
                raise LogTruncated(f"segment {self._start.lssn} was purged under the reader")
            self._start = DLSN(segment.lssn, 0, 0)
        self._view = await log.view(segment.lssn)
        first = max(self._start.entry_id, 0)
        self._ahead = ReadAhead(self._view.ledger, first, self._config, self._tasks)
        self._is_positioned = True
        return True

    async def _read_entries(self, view: SegmentView, max_bytes: int) -> bool:
        """Read on in the segment, or leave it at its end; False at the tail."""
        assert self._ahead is not None
        last, is_final = await view.readable(self._ahead.next_entry)
        entries = await self._ahead.read(last, max_bytes)
        self._entries.extend(entries)
        if entries:
            return True
        if is_final:
            self._leave(DLSN(view.metadata.lssn + 1, 0, 0))
        return is_final

    async def _on_ledger_gone(self, view: SegmentView, error: LedgerNotFound) -> None:
        """Go on in another ledger: a segment without records may come again with a new one."""
        lssn = view.metadata.lssn
        await self._log.refresh()
        segment = self._log.segments.find(lssn)
        if segment is None or segment.ledger_id == view.metadata.ledger_id:
            raise LogTruncated(f"segment {lssn} was purged under the reader") from error
        self._leave(DLSN(lssn, 0, 0))

    def _leave(self, start: DLSN) -> None:
        self._start = start
        self._view = self._ahead = None
