"""Finding the first record with a transaction id not below a given one.

Invariant: txids never fall along a log, control records included (they repeat the last one), so
"the last record of an entry has txid >= X" is false and then true. Several entries are probed at
once, because a round trip costs more than a read. An entry that cannot be read tells nothing: the
others decide. Only where the record may be in entries that cannot be read, and that lie before what
can, these decide: they are read again, since the fault may have passed; then positions tell whether
they held a record at all; then the first of them is what is found, so that who reads on from there
misses nothing.
Source: reference DistributedLog 7.2 step B.
"""

from bisect import bisect_left
from collections.abc import Sequence
from typing import Final, NamedTuple

from tailrace.core.errors import CorruptData, EntryNotFound
from tailrace.core.log.entries import EntryRecords, read_slots, visible_records
from tailrace.core.log.segment_view import SegmentView
from tailrace.core.runtime.tasks import together
from tailrace.protocol.bookkeeper.entry import Entry
from tailrace.protocol.distributedlog.dlsn import DLSN
from tailrace.protocol.ids import EntryId, TxId

PROBES: Final = 3
"""Entries read at once per round; each round leaves a quarter of the range."""

PROBES_MAX: Final = 63
"""The same after rounds in which none could be read; then entries are read in order."""

GALLOP_ENTRIES_MAX: Final = 32

DAMAGED: Final = (CorruptData, EntryNotFound)
"""What says that an entry cannot be had from any of its copies, while others may."""

LOOKED_BEHIND_ENTRIES: Final = 1024
"""Entries in a row that cannot be read; a reader does not look further for one that can, and a
search reads no longer row again."""

AGAIN_MAX: Final = 3
"""How often a search reads a row again, as long as that brings one of its entries."""

LOOKED_BEFORE_ENTRIES: Final = 8
"""Entries before a row in which a search looks for the last record before it."""


async def find_in_segment(
    view: SegmentView, txid: TxId, low: EntryId, last: EntryId
) -> DLSN | None:
    """Return the first visible record with txid >= `txid` in the entries `low`..`last`.

    Shape: where it may be in entries that cannot be read, also when tried again, the first of
    these; all from there to the record, or to the end, cannot be read or hold no record.
    Errors: as SegmentView.read, but no `DAMAGED`.
    """
    search = _Search(view, txid)
    high = last + 1  # every entry from here on reaches; `low` is the first that may
    count = PROBES
    while high - low > count and count <= PROBES_MAX:
        step = (high - low) // (count + 1)
        probes = [low + step * number for number in range(1, count + 1)]
        readable = [entry for entry in await search.read_each(probes) if entry is not None]
        count = PROBES if readable else 2 * count + 1
        for entry in readable:
            if entry.last_txid >= txid:
                high = entry.records.entry_id
                search.reaching = entry
                break
            low = entry.records.entry_id + 1
            search.below = entry
    return await search.forward(low, last)


async def find_forward(view: SegmentView, txid: TxId, low: EntryId, last: EntryId) -> DLSN | None:
    """Do the same by reading on from an entry close before the record. Cost: entries read."""
    return await _Search(view, txid).forward(low, last)


async def records_behind(view: SegmentView, damaged: EntryId) -> EntryRecords | None:
    """Return what comes next in a segment behind an entry that cannot be read; None: nothing.

    Errors: as SegmentView.read. Cost: entries that cannot be read, `LOOKED_BEHIND_ENTRIES` at most.
    """
    search = _Search(view, 0)
    last = min(view.known().last, damaged + LOOKED_BEHIND_ENTRIES)
    low, count = damaged + 1, 1
    while low <= last:
        end = min(last, low + count - 1)
        for entry in await search.read_run(low, end):
            if entry is not None and entry.records.slots:
                return entry.records
        low = end + 1
        count = min(count * 2, GALLOP_ENTRIES_MAX)
    return None


class _Seen(NamedTuple):
    """An entry that was read."""

    records: EntryRecords
    last_txid: TxId
    """Of its last record, which may be one that readers do not see; -1 without any."""


class _Found(NamedTuple):
    """The first record that reaches, of those that were read."""

    records: EntryRecords
    at: int

    @property
    def dlsn(self) -> DLSN:
        return DLSN(self.records.lssn, self.records.entry_id, self.records.slots[self.at])


class _Search:
    """One search in one segment."""

    __slots__ = ("_lost", "_position", "_txid", "_view", "below", "reaching")

    def __init__(self, view: SegmentView, txid: TxId) -> None:
        self._view = view
        self._txid = txid
        self._lost: list[EntryId] = []
        """What cannot be read and may hold the record: behind the last entry that is below it."""
        self._position: int | None = None
        """Of the last record before these; None while it is unknown."""
        self.below: _Seen | None = None
        self.reaching: _Seen | None = None
        """Probes on both sides of the record: they count even if they cannot be read any more."""

    async def forward(self, low: EntryId, last: EntryId) -> DLSN | None:
        """Read on from `low`, the first entry that may reach, to the first that does."""
        self._position = 0 if low == 0 else None
        found: _Found | None = None
        count = 1
        while low <= last and found is None:
            end = min(last, low + count - 1)
            found = self._take(range(low, end + 1), await self.read_run(low, end))
            low = end + 1
            count = min(count * 2, GALLOP_ENTRIES_MAX)
        found = await self._look_again(found)
        if self._lost and (found is None or not await self._is_next(found.records)):
            return DLSN(self._view.metadata.lssn, self._lost[0], 0)
        return None if found is None else found.dlsn

    def _take(self, entry_ids: Sequence[EntryId], entries: Sequence[_Seen | None]) -> _Found | None:
        """Go on behind entries, up to the first that reaches; return its record."""
        for entry_id, entry in zip(entry_ids, entries, strict=True):
            if entry is None:
                self._lost.append(entry_id)
                continue
            records = entry.records
            at = bisect_left(records.columns.txids, self._txid)
            if at or entry.last_txid < self._txid:
                # What was lost before it is below as well.
                if records.slots:
                    self._position = records.last_position if records.first_position else None
                elif self._lost:
                    self._position = None
                self._lost.clear()
            if at < len(records.slots):
                return _Found(records, at)
        return None

    async def _look_again(self, found: _Found | None) -> _Found | None:
        """Read again what was lost before the record; return what is found now."""
        for _ in range(AGAIN_MAX):
            lost = self._lost
            if not lost or len(lost) > LOOKED_BEHIND_ENTRIES:
                break
            entries: list[_Seen | None] = []
            for at in range(0, len(lost), GALLOP_ENTRIES_MAX):
                entries += await self.read_each(lost[at : at + GALLOP_ENTRIES_MAX])
            if not any(entries):
                break
            self._lost = []
            found = self._take(lost, entries) or found
        return found

    async def _is_next(self, records: EntryRecords) -> bool:
        """Tell whether what was lost before some records certainly held none."""
        if self._position is None:
            self._position = await self._position_before(self._lost[0])
        return self._position is not None and records.first_position == self._position + 1

    async def _position_before(self, entry_id: EntryId) -> int | None:
        """Return the position of the last record before an entry; None if it is not to be had."""
        first = max(entry_id - LOOKED_BEFORE_ENTRIES, 0)
        position = None if first else 0
        entry_ids = range(first, entry_id)
        entries = await self.read_each(entry_ids)
        if None in entries:
            again = await self.read_each(entry_ids)
            entries = [one or other for one, other in zip(entries, again, strict=True)]
        for entry in entries:
            if entry is None:
                position = None
            elif entry.records.slots:
                position = entry.records.last_position if entry.records.first_position else None
        return position

    async def read_run(self, first: EntryId, last: EntryId) -> Sequence[_Seen | None]:
        """Return some entries; None for those that cannot be read."""
        try:
            return [self._see(entry) for entry in await self._view.read(first, last)]
        except DAMAGED:
            return await self.read_each(range(first, last + 1))

    async def read_each(self, entry_ids: Sequence[EntryId]) -> list[_Seen | None]:
        """Do the same, each for itself."""
        return await together([self._read_one(entry_id) for entry_id in entry_ids])

    async def _read_one(self, entry_id: EntryId) -> _Seen | None:
        """Return an entry, None if it is damaged: its bytes, or what should be an envelope."""
        for known in (self.below, self.reaching):
            if known is not None and known.records.entry_id == entry_id:
                return known
        try:
            (entry,) = await self._view.read(entry_id, entry_id)
            return self._see(entry)
        except DAMAGED:
            return None

    def _see(self, entry: Entry) -> _Seen:
        """Errors: CorruptData."""
        metadata = self._view.metadata
        records = visible_records(metadata, entry)
        if records.slots:
            return _Seen(records, records.columns.txids[-1])
        slots = read_slots(metadata, entry)
        return _Seen(records, slots[-1][1].txid if slots else -1)
