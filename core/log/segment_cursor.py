"""A reader's place in one segment: from the ledger's entries to what readers see of them.

Invariant: an entry leaves the queue only when its records were given out, or when it was skipped
because the reader's settings say so; an error leaves everything as it was.
"""

import logging
from collections import deque
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from tailrace.core.errors import CoreError, CorruptData, DLIllegalState, InvalidEnvelopedEntry
from tailrace.core.log.entries import EntryRecords, visible_records
from tailrace.core.log.position_check import PositionCheck, PositionGap
from tailrace.core.log.read_ahead import ReadAhead
from tailrace.core.log.read_pace import ReadPace
from tailrace.core.log.reader_settings import ReaderSettings
from tailrace.core.log.resume import BEGINNING, Resume
from tailrace.core.log.search import DAMAGED, records_behind
from tailrace.core.log.segment_view import Readable, SegmentView
from tailrace.core.log.shared_entries import SharedEntries
from tailrace.core.runtime.tasks import Tasks
from tailrace.protocol.distributedlog.dlsn import DLSN
from tailrace.protocol.ids import EntryId

if TYPE_CHECKING:
    from tailrace.protocol.bookkeeper.entry import Entry

logger = logging.getLogger(__name__)


class Step(Enum):
    """What reading on in a segment came to."""

    ENTRIES = "entries"
    TAIL = "nothing more is confirmed yet"
    END = "the segment is over"


@dataclass(frozen=True, slots=True)
class ReaderContext:
    """What the cursors of one reader share."""

    log: str
    settings: ReaderSettings
    shared: SharedEntries
    pace: ReadPace
    tasks: Tasks


class SegmentCursor:
    """One reader in one segment."""

    def __init__(self, view: SegmentView, start: DLSN, context: ReaderContext) -> None:
        """`start`: the first position in this segment whose record is wanted."""
        self.view = view
        self.is_sealed = False
        """Whether the log ends behind what was taken last."""
        self.taken: Resume | None = None
        """Where one goes on behind what was taken; None: nothing was."""
        self._metadata = view.metadata
        self._expands_sets = context.settings.config.expands_record_sets
        self._start = start
        self._context = context
        lssn, first = self._metadata.lssn, max(start.entry_id, 0)
        self._ahead = ReadAhead(
            lssn, view.ledger, first, context.settings.config, context.shared, context.pace
        )
        self._positions = PositionCheck(from_beginning=first == 0 and start.slot <= 0)
        self._entries: deque[Entry] = deque()

    @property
    def position(self) -> DLSN:
        """Where the reader goes on, as far as entries tell."""
        return max(self._start, DLSN(self.view.metadata.lssn, self.next_entry, 0))

    @property
    def has_entries(self) -> bool:
        """Whether `take` gives something without reading."""
        return bool(self._entries)

    @property
    def held_bytes(self) -> int:
        """Bytes of the entries that `take` has without reading."""
        entries = self._entries
        if not entries:
            return 0
        return entries[-1].length - entries[0].length + len(entries[0].payload)

    @property
    def next_entry(self) -> EntryId:
        """The first entry whose records were not given out."""
        return self._entries[0].entry_id if self._entries else self._ahead.next_entry

    def is_in(self, lssn: int, ledger_id: int) -> bool:
        """Tell whether this is a place in that segment, in the ledger that it has now."""
        metadata = self.view.metadata
        return (metadata.lssn, metadata.ledger_id) == (lssn, ledger_id)

    async def read(self, max_bytes: int, *, asks: bool) -> Step:
        """Get the next entries. `asks`: at the known end, ask bookies whether there is more.

        Errors: as SegmentLedger.read; CorruptData, EntryNotFound say where. Cancel: nothing is
        lost.
        """
        ahead = self._ahead
        readable = self.view.known()
        if asks and not readable.is_final and ahead.next_entry > readable.last:
            readable = await self.view.look()
        last = self._last_with_records(readable)
        while ahead.next_entry <= last:
            try:
                entries = await ahead.read(last, max_bytes)
            except DAMAGED as error:
                if self._skips(ahead.next_entry, error):
                    ahead.go_to(ahead.next_entry + 1)
                elif not await self._passes_damage():
                    raise type(error)(f"{self._where(ahead.next_entry)}: {error}") from error
            else:
                self._entries.extend(entries)
                return Step.ENTRIES
        return Step.END if readable.is_final else Step.TAIL

    def ask_ahead(self, max_bytes: int | None = None) -> bool:
        """Ask for the entries that come next; tell whether that was needed and possible.

        `max_bytes`: about so many of them at most.
        """
        last = self._last_with_records(self.view.known())
        return self._ahead.ask_ahead(last, self._context.tasks, max_bytes)

    def may_read_on(self) -> bool:
        """Tell whether there is more, as far as this process knows: entries, or a fixed end."""
        readable = self.view.known()
        return readable.is_final or self._ahead.next_entry <= readable.last

    def is_near_end(self) -> bool:
        """Tell whether everything that is confirmed was given out or asked for."""
        return self._ahead.has_asked_for(self._last_with_records(self.view.known()))

    def take(self, into: list[EntryRecords], left: int) -> int:
        """Add what readers see of the next entries to `into`, until it has `left` bytes more.

        Return how many are left. Stops where the log is sealed. Errors: InvalidEnvelopedEntry,
        DLIllegalState: the entry stays the next one, those before it were taken.
        """
        entries = self._entries
        while entries and left > 0 and not self.is_sealed:
            records = self._visible(entries[0])
            entries.popleft()
            if records is not None:
                self.is_sealed = records.is_last
                if records.slots:
                    self.taken = (self.taken or BEGINNING).moved_by(records)
                    into.append(records)
                    left -= records.size_bytes
        return left

    @property
    def is_ended(self) -> bool:
        """Whether the ledger's end is known to be fixed."""
        return self.view.ledger.is_closed

    def let_go(self) -> None:
        """Give up what is held: the reader leaves the segment."""
        self._ahead.let_go()

    def _last_with_records(self, readable: Readable) -> EntryId:
        """Return the last entry to read: what comes behind a segment's end is its owner's."""
        end = self._metadata.last_entry_id
        return readable.last if self._metadata.in_progress or end < 0 else min(readable.last, end)

    def _visible(self, entry: "Entry") -> EntryRecords | None:
        """Return what readers see of an entry; None when it is skipped."""
        try:
            records = visible_records(self._metadata, entry, expands_sets=self._expands_sets)
        except InvalidEnvelopedEntry as error:
            if not self._skips(entry.entry_id, error):
                raise InvalidEnvelopedEntry(f"{self._where(entry.entry_id)}: {error}") from error
            return None
        if entry.entry_id == self._start.entry_id:
            records = records.from_slot(self._start.slot)
        if records.slots and (gap := self._positions.passes(records)) is not None:
            self._on_gap(records, gap)
        return records

    def _on_gap(self, records: EntryRecords, gap: PositionGap) -> None:
        what = f"position {gap.found} where {gap.expected} comes next"
        if self._context.settings.config.detects_position_gaps:
            raise DLIllegalState(f"{self._where(records.entry_id)}: {what}")
        self._context.settings.metrics.position_gaps_total += 1
        logger.warning("position_gap %s: %s", self._where(records.entry_id), what)
        self._positions.accept(records)

    async def _passes_damage(self) -> bool:
        """Go on behind entries that cannot be read, if nothing that is wanted is in them.

        That is so if no position is missing, or what comes next is not wanted either or holds what
        was asked for.
        """
        records = await records_behind(self.view, self._ahead.next_entry)
        if records is None:
            return False
        if not self._positions.is_next(records):
            txid, rules = self._context.settings.from_txid, self._context.settings.rules
            if txid is None:
                return False
            if records.columns.txids[0] >= txid and not rules.covers(records.columns.payloads[0]):
                return False
            self._positions = PositionCheck(from_beginning=False)
        self._ahead.go_to(records.entry_id)
        return True

    def _skips(self, entry_id: EntryId, error: CoreError) -> bool:
        settings = self._context.settings
        is_broken = isinstance(error, CorruptData)
        if settings.rules.skips_damaged:
            self._positions = PositionCheck(from_beginning=False)
        elif not (is_broken and settings.config.skips_broken_entries):
            return False
        self._context.settings.metrics.broken_entries_skipped_total += 1
        logger.warning("entry_skipped %s: %s", self._where(entry_id), error)
        return True

    def _where(self, entry_id: EntryId) -> str:
        lssn, ledger_id = self.view.metadata.lssn, self.view.metadata.ledger_id
        return f"log {self._context.log} segment {lssn} ledger {ledger_id} entry {entry_id}"
