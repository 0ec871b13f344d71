"""Reading a log in order: one segment after the other, never past the LAC.

Invariant: every confirmed record from the start position on is given out once, in order; control
records never. A segment is left only when its end is fixed and everything up to it was given out.
Only the reader's own call moves it on: what reads ahead, opens the next segment or hears of the
tail puts its result where that call finds it, and a result that came too late is not looked at.
Source: reference DistributedLog 7.3, 7.4; issues 1973, 2898 and 3064 of apache/bookkeeper.
"""

import asyncio
import logging
from collections import deque

from tailrace.core.errors import (
    CoreError,
    EndOfStream,
    IdleReader,
    LedgerNotFound,
    LogTruncated,
    ReadCancelled,
)
from tailrace.core.log.entries import EntryRecords, LogRecordWithDLSN
from tailrace.core.log.idleness import Idleness, Silence
from tailrace.core.log.positioning import first_readable
from tailrace.core.log.read_pace import SMALLEST_BYTES, ReadPace
from tailrace.core.log.readable_log import ReadableLog
from tailrace.core.log.reader_settings import ReaderSettings
from tailrace.core.log.resume import NO_LEDGER, Resume
from tailrace.core.log.search import find_in_segment
from tailrace.core.log.segment_cursor import ReaderContext, SegmentCursor, Step
from tailrace.core.log.segment_view import SegmentView
from tailrace.core.metadata.segment_metadata import SegmentMetadata
from tailrace.core.runtime.tasks import Tasks
from tailrace.protocol.distributedlog.dlsn import DLSN
from tailrace.protocol.distributedlog.record import END_OF_STREAM_TXID, HEADER_SIZE

logger = logging.getLogger(__name__)


class LogReader:
    """Reads from one position on. One call at a time."""

    def __init__(self, log: ReadableLog, start: DLSN, settings: ReaderSettings) -> None:
        config = settings.config
        self._log = log
        self._settings = settings
        self._tasks = Tasks("log.reader")
        self._context = ReaderContext(
            log.name, settings, log.shared, ReadPace(config.read_ahead_bytes), self._tasks
        )
        self._place = log.shared.join((start.lssn, start.entry_id))
        self._start = start
        self._start_ledger = settings.ledger_id
        """In which the start counts; None: in any."""
        txid = settings.from_txid
        self._left_out = None if txid is None else Resume(txid)
        """What is still to be left out of what is read."""
        self._resume = settings.resume or self._left_out
        """Behind which record the next one comes."""
        self._is_positioned = settings.resume is not None
        self._cursor: SegmentCursor | None = None
        self._following: SegmentCursor | None = None
        """A place at the beginning of the segment that comes next."""
        self._opening: tuple[int, int] | None = None
        """(lssn, ledger id) of the segment that is being opened for that."""
        self._gone_at: tuple[int, int] | None = None
        """Where a ledger that was gone was opened again."""
        self._given_back: deque[EntryRecords] = deque()  # come before the cursor's entries
        self._idleness = Idleness(config.reader_idle_warn_ms, config.reader_idle_error_ms)
        self._seen_version = -1
        self._was_at_tail = False
        """Whether the last read ended there, not by an error or with enough."""
        self._is_awake = False
        """Whether somebody told of what is new: no need to ask who else may know."""
        self._is_closed = False

    @property
    def log(self) -> ReadableLog:
        """The log that it reads."""
        return self._log

    @property
    def is_caught_up(self) -> bool:
        """Whether it has given out all that is confirmed, as far as this process knows."""
        cursor = self._cursor
        if self._given_back or cursor is None or cursor.has_entries:
            return False
        return cursor.is_sealed or not cursor.may_read_on()

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
                    self.give_back([entry.behind(index), *entries[number + 1 :]])
                    return taken
                taken.append(found)
        return taken

    async def read_entries(self, max_bytes: int) -> list[EntryRecords]:
        """Return the next confirmed records by entry: whole entries, until `max_bytes` are reached.

        [] at the tail; no entry is empty. Payloads are views, valid as long as they are held.
        Errors: LogTruncated when the segment was purged under the reader, AlreadyTruncated-
        Transaction when it cannot begin; EndOfStream after the last record of a sealed log;
        BookieUnavailable; CorruptData with its place, and its kinds InvalidEnvelopedEntry and
        DLIllegalState (a position is missing); IdleReader; ReadCancelled after close. After any
        but the last the same read may be tried again. Cancel: nothing is lost.
        """
        self._check_open()
        self._seen_version = self._log.tail_version
        self._was_at_tail = False
        taken: list[EntryRecords] = []
        try:
            await self._take(taken, max_bytes)
            self._check_open()
        except CoreError:
            if not taken or self._is_closed:
                raise  # else it comes again with the next read
        except asyncio.CancelledError:
            self.give_back(taken)
            raise
        if not taken and max_bytes > 0:
            await self._on_nothing()
        self._is_awake = False
        return taken

    async def wait_for_more(self) -> None:
        """Return when a read may give more than the last one did, sooner if in doubt."""
        self._check_open()
        if self._was_at_tail and self._cursor is not None and self._cursor.may_read_on():
            return  # another reader heard of it meanwhile; a poll begun now is for what comes next
        within_s = self._idleness.left_s(self._settings.clock.monotonic_s())
        view = None if self._cursor is None else self._cursor.view
        self._is_awake = await self._log.tail_moved(self._seen_version, view, within_s)
        self._check_open()

    def ask_ahead(self) -> None:
        """Have what comes next read: for who opened it with `reads_ahead=False`. Errors: none."""
        if self._cursor is not None and not self._is_closed:
            self._look_ahead(self._cursor)

    def give_back(self, entries: list[EntryRecords]) -> None:
        """Let these be the next ones that are read: what the caller took last and did not use."""
        self._given_back.extendleft(reversed(entries))

    async def close(self) -> None:
        """End what is on its way; who still reads or waits gets ReadCancelled. Idempotent.

        Cancel: it is closed, only the waiting ends.
        """
        self._is_closed = True
        self._log.on_tail_moved()
        try:
            await self._tasks.close()
        finally:
            for cursor in (self._cursor, self._following):
                if cursor is not None:
                    cursor.let_go()
            self._log.shared.leave(self._place)

    def _check_open(self) -> None:
        if self._is_closed:
            raise ReadCancelled(f"the reader of {self._log.name} is closed")

    async def _take(self, taken: list[EntryRecords], left: int) -> None:
        while left > 0:
            cursor = self._cursor
            if self._given_back:
                taken.append(self._given_back.popleft())
                left -= taken[-1].size_bytes
            elif cursor is not None and cursor.is_sealed:
                where = f"segment {cursor.view.metadata.lssn}"
                raise EndOfStream(f"{self._log.name} was sealed in {where}")
            elif cursor is None or not cursor.has_entries:
                if not await self._read_on(left, asks=not taken):
                    return
            else:
                before = len(taken)
                try:
                    left = cursor.take(taken, left)
                finally:
                    left += self._leave_out(taken, before)

    def _leave_out(self, taken: list[EntryRecords], at: int) -> int:
        """Drop what comes first from index `at` on and is not wanted, by txid; return its bytes."""
        if self._left_out is None:
            return 0
        found = taken[at:]
        taken[at:], still = self._left_out.leave_out(found)
        self._left_out = None if len(taken) > at else still
        return sum(entry.size_bytes for entry in found) - sum(e.size_bytes for e in taken[at:])

    # ------------------------------------------------------------------ segments

    async def _read_on(self, max_bytes: int, *, asks: bool) -> bool:
        """Get entries, or to the next segment; False at the tail."""
        cursor = self._cursor
        if cursor is None:
            return await self._enter_segment()
        lssn = cursor.view.metadata.lssn
        current = self._log.segments.find(lssn)
        is_current = current is not None and cursor.is_in(lssn, current.ledger_id)
        if current is not None and not is_current and not (cursor.taken or cursor.is_ended):
            self._leave_ledger(cursor)  # it was deleted, and began again
            return True
        is_told = self._is_awake and is_current and current is not None and current.in_progress
        try:
            step = await cursor.read(max_bytes, asks=asks and not is_told)
        except LedgerNotFound as error:
            return await self._on_ledger_gone(cursor, error)
        if self._is_closed:
            cursor.let_go()
            self._check_open()
        if step is Step.ENTRIES:
            self._idleness.on_entry()
            if self._move(cursor, max_bytes):
                await asyncio.sleep(0)  # let it be sent: the consumer may not pause for long
            return True
        return await self._leave_if_over(step, cursor)

    async def _leave_if_over(self, step: Step, cursor: SegmentCursor) -> bool:
        """Go to the next segment at the end of one; False at the tail."""
        lssn = cursor.view.metadata.lssn
        if step is Step.END and not (cursor.taken or await self._is_complete(cursor)):
            return self._cursor is None
        is_last = lssn >= self._settings.rules.through_lssn
        if step is Step.END and not is_last:
            self._leave(cursor, DLSN(lssn + 1, 0, 0))
            return True
        self._was_at_tail = True
        return False

    def _move(self, cursor: SegmentCursor, wanted_bytes: int) -> bool:
        """Tell the others where this reader is, and look ahead; tell whether it asks for more."""
        self._log.shared.move(self._place, (cursor.view.metadata.lssn, cursor.next_entry))
        if self._settings.reads_ahead:
            return self._look_ahead(cursor)
        missing_bytes = wanted_bytes - cursor.held_bytes  # of this call: a small rest can wait
        return missing_bytes >= SMALLEST_BYTES and self._look_ahead(cursor, missing_bytes)

    def _look_ahead(self, cursor: SegmentCursor, max_bytes: int | None = None) -> bool:
        has_asked = cursor.ask_ahead(max_bytes)
        following = self._log.segments.find(cursor.view.metadata.lssn + 1)
        if following is None or following.lssn > self._settings.rules.through_lssn:
            return has_asked
        if self._following is None and cursor.is_near_end():
            expected = (following.lssn, following.ledger_id)
            if self._opening != expected:
                self._opening = expected
                self._tasks.start(self._open_following(following), "open_following")
        return has_asked

    async def _open_following(self, segment: SegmentMetadata) -> None:
        """Open the segment that comes next, and ask for its beginning."""
        try:
            view = await self._log.view(segment.lssn)
        except CoreError as error:
            # The reader opens it again when it gets there, and tells its caller then.
            logger.debug("open_following_failed lssn=%d error=%s", segment.lssn, error)
            return
        if self._opening == (view.metadata.lssn, view.metadata.ledger_id) and not self._is_closed:
            self._following = SegmentCursor(view, DLSN(segment.lssn, 0, 0), self._context)
            self._following.ask_ahead()

    def _leave(self, cursor: SegmentCursor, start: DLSN) -> None:
        """Go to the beginning of another segment, or on in the same ledger, opened anew."""
        cursor.let_go()
        self._resume = cursor.taken or self._resume
        is_inside = start.lssn == cursor.view.metadata.lssn
        self._start_ledger = cursor.view.ledger.ledger_id if is_inside else None
        self._start = start
        self._cursor = None

    def _leave_ledger(self, cursor: SegmentCursor) -> None:
        """Go on in the ledger that the segment has now: by txid, unless nothing was read in it."""
        is_inside = cursor.taken is not None or self._start.entry_id > 0 or self._start.slot > 0
        self._leave(cursor, self._start)
        if not is_inside:
            self._start_ledger = None

    async def _enter_segment(self) -> bool:
        """Go to the segment of the position; False when it does not exist yet."""
        segment = await self._find_segment()
        if segment is None or segment.lssn > self._settings.rules.through_lssn:
            return False
        following, self._following, self._opening = self._following, None, None
        is_beginning = self._start == (segment.lssn, 0, 0) and self._start_ledger != NO_LEDGER
        if following is not None:
            if is_beginning and following.is_in(segment.lssn, segment.ledger_id):
                self._cursor = following
            else:
                following.let_go()
        if self._cursor is None:
            try:
                view = await self._log.view(segment.lssn)
                await self._find_start(view)
            except LedgerNotFound as error:
                return await self._on_segment_gone(segment, error)
            if self._start.lssn != segment.lssn:
                return True  # truncated meanwhile
            self._cursor = SegmentCursor(view, self._start, self._context)
        self._is_positioned = True
        self._log.shared.move(self._place, (segment.lssn, max(self._start.entry_id, 0)))
        return True

    async def _find_start(self, view: SegmentView) -> None:
        """Search the start by txid if it is a position in another ledger. Errors: as the view's."""
        ledger_id = view.ledger.ledger_id
        if self._start_ledger in (None, ledger_id) or self._resume is None:
            return
        lssn = view.metadata.lssn
        last = (await view.readable()).last
        found = await find_in_segment(view, self._resume.txid, 0, last)
        self._left_out = self._resume
        self._start_ledger = ledger_id
        self._start = found or DLSN(lssn, last + 1, 0)
        if not self._is_positioned:
            self._begin()  # truncation counts in this ledger
        logger.info("reader_moved log=%s lssn=%d to=%s", self._log.name, lssn, self._start)

    async def _find_segment(self) -> SegmentMetadata | None:
        """Return the segment to read in, and let the position lie in it.

        Errors: EndOfStream when there will never be one.
        """
        log = self._log
        if not self._is_positioned:
            await log.refresh()
            self._begin()
        segment = log.segments.at_or_after(self._start.lssn)
        if segment is None:
            await log.refresh()
            segment = log.segments.at_or_after(self._start.lssn)
        if segment is None and log.segments.last_txid == END_OF_STREAM_TXID:
            raise EndOfStream(f"{log.name} was sealed before {self._start}")
        if segment is not None:
            self._begin_in(segment)
        return segment

    def _begin_in(self, segment: SegmentMetadata) -> None:
        """Let the position lie in a segment. Errors: LogTruncated.

        The oldest one may hold what those before it had, where they were merged.
        """
        is_oldest = self._is_positioned and self._log.segments.find(segment.lssn - 1) is None
        may_repeat = is_oldest and self._resume is not None and self._resume.may_be_in(segment)
        if segment.lssn != self._start.lssn:
            if self._is_positioned and not may_repeat:
                raise self._purged(self._start.lssn)
            self._start, self._start_ledger = DLSN(segment.lssn, 0, 0), None
        if may_repeat and self._start == (segment.lssn, 0, 0):
            self._start_ledger = NO_LEDGER

    def _begin(self) -> None:
        """Take the truncation into account, as it is when the reader begins."""
        config = self._settings.config
        begin = first_readable(
            self._log.segments, self._start, ignores_truncation=config.ignores_truncation
        )
        if begin.lssn == self._start.lssn and begin != self._start and config.alerts_on_truncated:
            logger.warning(
                "position_truncated log=%s asked=%s begins=%s", self._log.name, self._start, begin
            )
        self._start = begin

    # ------------------------------------------------------------------ what others do to the log

    async def _on_segment_gone(self, known: SegmentMetadata, error: LedgerNotFound) -> bool:
        """Look again for a segment that was never entered; False when it is nowhere yet.

        Recovery deletes what nobody wrote to: the ledger, then the node. Errors: LogTruncated.
        """
        await self._log.refresh(is_forced=True)
        segment = self._log.segments.at_or_after(known.lssn)
        if segment is None or (segment.in_progress and segment.ledger_id == known.ledger_id):
            return False
        if segment.ledger_id == known.ledger_id:
            raise self._purged(known.lssn) from error
        return True

    async def _is_complete(self, cursor: SegmentCursor) -> bool:
        """Tell whether a segment ended with its ledger, which gave nothing; else find where it is.

        Recovery closes a ledger without records before it deletes it, and the segment comes again
        with another one. Until then its end is known and there is nothing behind it.
        """
        lssn = cursor.view.metadata.lssn
        segment = self._log.segments.find(lssn)
        if segment is None or segment.in_progress:  # else it is as it was when it was completed
            await self._log.refresh(is_forced=True)
            segment = self._log.segments.find(lssn)
        is_in = segment is not None and cursor.is_in(lssn, segment.ledger_id)
        is_inside = self._start.entry_id > 0 or self._start.slot > 0  # it had records, then
        if segment is not None and not segment.in_progress and (is_in or is_inside):
            return True
        if not is_in:
            self._leave_ledger(cursor)
        return False

    async def _on_ledger_gone(self, cursor: SegmentCursor, error: LedgerNotFound) -> bool:
        """Go on where the segment is now; False when it is nowhere yet.

        A segment without records is deleted by recovery and comes again, with another ledger. One
        with records may have been rewritten, or lie somewhere else. Errors: LogTruncated.
        """
        lssn = cursor.view.metadata.lssn
        self._log.forget_view(cursor.view)
        await self._log.refresh(is_forced=True)
        segments = self._log.segments
        segment = segments.find(lssn)
        if segment is None:
            newest, taken = segments.last, cursor.taken or self._resume
            oldest = segments.at_or_after(0)
            if taken is not None and oldest is not None and taken.may_be_in(oldest):
                self._leave(cursor, DLSN(max(oldest.lssn, lssn), 0, 0))  # it went into that one
                return True
            if cursor.taken or (newest is not None and newest.lssn > lssn):
                raise self._purged(lssn) from error
            self._leave_ledger(cursor)
            return False
        is_same = cursor.is_in(lssn, segment.ledger_id)
        if is_same and self._gone_at != (lssn, cursor.next_entry):
            self._gone_at = (lssn, cursor.next_entry)
            self._leave(cursor, max(self._start, DLSN(lssn, cursor.next_entry, 0)))
            return True
        if is_same:
            raise error  # it is there and no bookie has it: lost is not purged
        self._leave_ledger(cursor)
        return True

    def _purged(self, lssn: int) -> LogTruncated:
        return LogTruncated(f"segment {lssn} of {self._log.name} was purged under the reader")

    async def _on_nothing(self) -> None:
        """Count a read that found nothing. Errors: IdleReader."""
        silence = self._idleness.on_nothing(self._settings.clock.monotonic_s())
        if silence is Silence.NORMAL:
            return
        log, at = self._log, self._start if self._cursor is None else self._cursor.position
        self._settings.metrics.idle_readers_total += 1
        if silence is Silence.TOO_LONG:
            within_ms = self._settings.config.reader_idle_error_ms
            raise IdleReader(f"no entry of {log.name} for {within_ms} ms at {at}")
        logger.info("reader_idle log=%s at=%s", log.name, at)
        await log.refresh(is_forced=True)
