"""Reading one log: where readers begin, what they share, and how they hear of more.

Nothing is held for a log that nobody reads but the segments that were opened last.
"""

from collections.abc import Awaitable, Callable
from typing import Final, Protocol, TypeVar

from tailrace.core.errors import LedgerNotFound, LogTruncated
from tailrace.core.log.context import LogContext
from tailrace.core.log.log_tail import LogTail
from tailrace.core.log.positioning import first_readable
from tailrace.core.log.reader import LogReader
from tailrace.core.log.reader_settings import READ_ALL, ReaderSettings, ReadRules
from tailrace.core.log.resume import Place, Resume
from tailrace.core.log.search import find_forward, find_in_segment
from tailrace.core.log.segment_view import SegmentView, WriterLookup
from tailrace.core.log.segment_views import OpenLedger, SegmentViews
from tailrace.core.log.segments import SegmentList
from tailrace.core.log.shared_entries import SharedEntries
from tailrace.core.metadata.segment_metadata import SegmentMetadata
from tailrace.protocol.distributedlog.dlsn import DLSN, INITIAL
from tailrace.protocol.ids import LedgerId, TxId

_BEGINNING: Final = DLSN(0, 0, 0)
_NO_LEDGER: Final = LedgerId(-1)

_T = TypeVar("_T")


class ReadingHome(WriterLookup, Protocol):
    """The log as its readers need it."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def segments(self) -> SegmentList:
        """All segments, as far as this process knows."""

    @property
    def is_owned_here(self) -> bool:
        """Whether this process writes the log."""

    async def refresh(self, *, is_forced: bool = False) -> None:
        """Read the list of segments again if it may have changed, or anyway."""


class LogReading:
    """The readers' side of one log (ReadableLog)."""

    __slots__ = ("_context", "_home", "_tail", "shared", "views")

    def __init__(self, home: ReadingHome, open_ledger: OpenLedger, context: LogContext) -> None:
        """`open_ledger` opens what a segment lies in. Errors: LedgerNotFound, BookieUnavailable."""
        self.shared = SharedEntries(context.entries)
        self.views = SegmentViews(open_ledger, home)
        self._home = home
        self._context = context
        self._tail = LogTail(self.shared, context.config.lac_poll_ms)

    @property
    def name(self) -> str:
        """The log's name."""
        return self._home.name

    @property
    def segments(self) -> SegmentList:
        """All segments, as far as this process knows."""
        return self._home.segments

    async def refresh(self, *, is_forced: bool = False) -> None:
        """Read the list of segments again if it may have changed, or anyway."""
        await self._home.refresh(is_forced=is_forced)

    # ------------------------------------------------------------------ positions

    async def open_reader(
        self,
        start: DLSN | TxId,
        near: Place | None = None,
        *,
        reads_ahead: bool = True,
        rules: ReadRules = READ_ALL,
    ) -> LogReader:
        """Return a reader of the records with DLSN >= `start`, or with that txid or a higher one.

        Errors: as `Log.open_reader`.
        """
        await self.refresh()
        context = self._context
        settings = ReaderSettings(
            context.config, context.metrics, context.clock, reads_ahead=reads_ahead, rules=rules
        )
        if isinstance(start, DLSN):
            return LogReader(self, start, settings)
        settings = settings._replace(from_txid=start)
        if near is None:
            # Before the search: what comes after it may be what is wanted.
            end = await self.with_segments_there(self._end)
            near = await self.find(start) or end
        return LogReader(self, near.dlsn, settings._replace(ledger_id=near.ledger_id))

    async def reopen_reader(self, behind: Place, given: Resume) -> LogReader:
        """Return a reader that goes on where another one ended, as `Log.reopen_reader`."""
        await self.refresh()
        context, dlsn = self._context, behind.dlsn
        is_inside = dlsn.entry_id > 0 or dlsn.slot > 0
        settings = ReaderSettings(
            context.config,
            context.metrics,
            context.clock,
            ledger_id=behind.ledger_id if is_inside else None,
            resume=given,
        )
        return LogReader(self, dlsn, settings)

    def first_readable(self, start: DLSN) -> DLSN:
        """Return where a reader begins that asks for `start`, as `Log.first_readable`."""
        ignores_truncation = self._context.config.ignores_truncation
        return first_readable(self.segments, start, ignores_truncation=ignores_truncation)

    async def end(self) -> Place:
        """Return the position behind everything that is confirmed now, as `Log.end`."""
        await self.refresh()
        return await self.with_segments_there(self._end)

    async def find(self, txid: TxId, hint: DLSN | None = None) -> Place | None:
        """Return the first confirmed record with txid >= `txid`, as `Log.find`."""
        await self.refresh()
        return await self.with_segments_there(lambda: self._find(txid, hint))

    async def _find(self, txid: TxId, hint: DLSN | None) -> Place | None:
        floor = self.first_readable(_BEGINNING)
        segment = self.segments.first_not_less(txid)
        lssn = max(floor.lssn, 0 if segment is None else segment.lssn)
        if hint is not None and self.segments.find(hint.lssn) is not None:
            floor = max(floor, hint)
            lssn = max(lssn, floor.lssn)
        while (segment := self.segments.at_or_after(lssn)) is not None:
            found = await self._find_in(segment, txid, floor, is_near=floor == hint)
            if found is not None:
                return found
            lssn = segment.lssn + 1
        return None

    async def with_segments_there(self, step: Callable[[], Awaitable[_T]]) -> _T:
        """Do a step again if a segment's ledger is gone because the list is out of date.

        Recovery deletes what nobody wrote to. Errors: LedgerNotFound, by the newest list.
        """
        known = self.segments
        try:
            return await step()
        except LedgerNotFound:
            await self.refresh(is_forced=True)
            if self.segments == known:
                raise
        return await step()

    async def _find_in(
        self, segment: SegmentMetadata, txid: TxId, floor: DLSN, *, is_near: bool
    ) -> Place | None:
        if not segment.in_progress and segment.last_txid < txid:
            return None
        view = await self.view(segment.lssn)
        last = (await view.readable()).last
        starts_here = floor.lssn == segment.lssn
        low = max(floor.entry_id, 0) if starts_here else 0
        find = find_forward if is_near and starts_here else find_in_segment
        found = await find(view, txid, low, last)
        if found is None:
            return None  # else `floor` may be a slot of the same entry
        return Place(max(found, floor), view.ledger.ledger_id)

    async def _end(self) -> Place:
        newest = self.segments.last
        if newest is None:
            return Place(INITIAL, _NO_LEDGER)
        view = await self.view(newest.lssn)
        last = (await view.readable()).last
        return Place(DLSN(newest.lssn, last + 1, 0), view.ledger.ledger_id)

    # ------------------------------------------------------------------ segments and the tail

    async def view(self, lssn: int) -> SegmentView:
        """Open a segment for reading. Errors: LogTruncated, LedgerNotFound."""
        segment = self.segments.find(lssn)
        if segment is None:
            raise LogTruncated(f"{self.name} has no segment {lssn}")
        return await self.views.open(segment)

    def forget_view(self, view: SegmentView) -> None:
        """Open the segment anew the next time: its ledger is gone."""
        self.views.forget(view.ledger.ledger_id)

    @property
    def tail_version(self) -> int:
        """Rises with everything that may have made more readable."""
        return self._tail.version

    def on_tail_moved(self) -> None:
        """Wake up who waits at the tail."""
        self._tail.moved()

    async def tail_moved(
        self, seen_version: int, view: SegmentView | None = None, within_s: float | None = None
    ) -> bool:
        """Wait until there may be more, or for a while if others write the log."""
        is_own = self._home.is_owned_here
        return await self._tail.wait(seen_version, view, within_s, is_own=is_own)

    async def close(self) -> None:
        """End what is asked in the background. Idempotent."""
        await self._tail.stop()
        self._tail.moved()
