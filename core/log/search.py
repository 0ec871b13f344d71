"""Finding the first record with a transaction id not below a given one.

Invariant: txids never fall along a log, control records included (they repeat the last one), so
"the last record of an entry has txid >= X" is false and then true. Several entries are probed at
once, because a round trip costs more than a read. An entry that cannot be read tells nothing: the
others decide, and only where the record itself may be in it, it is what is found.
Source: reference DistributedLog 7.2 step B.
"""

from bisect import bisect_left
from collections.abc import Sequence
from typing import Final

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
"""Entries in a row that cannot be read; a reader does not look further for one that can."""


async def find_in_segment(
    view: SegmentView, txid: TxId, low: EntryId, last: EntryId
) -> DLSN | None:
    """Return the first visible record with txid >= `txid` in the entries `low`..`last`.

    Shape: where it may be in entries that cannot be read, the first of these.
    Errors: as SegmentView.read, but no `DAMAGED`.
    """
    high = last + 1  # every entry from here on reaches; `low` is the first that may
    count = PROBES
    while high - low > count and count <= PROBES_MAX:
        step = (high - low) // (count + 1)
        probes = [low + step * number for number in range(1, count + 1)]
        readable = [entry for entry in await _read_each(view, probes) if entry is not None]
        count = PROBES if readable else 2 * count + 1
        for entry in readable:
            if _reaches(view, entry, txid):
                high = entry.entry_id
                break
            low = entry.entry_id + 1
    return await find_forward(view, txid, low, last)


async def find_forward(view: SegmentView, txid: TxId, low: EntryId, last: EntryId) -> DLSN | None:
    """Do the same by reading on from an entry close before the record. Cost: entries read."""
    count = 1
    damaged: EntryId | None = None
    """The first entry since the last one that does not reach."""
    while low <= last:
        end = min(last, low + count - 1)
        for entry_id, records in zip(
            range(low, end + 1), await _read_run(view, low, end), strict=True
        ):
            if records is None:
                damaged = entry_id if damaged is None else damaged
                continue
            at = bisect_left(records.columns.txids, txid)
            if at == 0 and records.slots and damaged is not None:
                return DLSN(records.lssn, damaged, 0)
            if at < len(records.slots):
                return DLSN(records.lssn, records.entry_id, records.slots[at])
            if records.slots:
                damaged = None
        low = end + 1
        count = min(count * 2, GALLOP_ENTRIES_MAX)
    return None if damaged is None else DLSN(view.metadata.lssn, damaged, 0)


async def records_behind(view: SegmentView, damaged: EntryId) -> EntryRecords | None:
    """Return what comes next in a segment behind an entry that cannot be read; None: nothing.

    Errors: as SegmentView.read. Cost: entries that cannot be read, `LOOKED_BEHIND_ENTRIES` at most.
    """
    last = min(view.known().last, damaged + LOOKED_BEHIND_ENTRIES)
    low, count = damaged + 1, 1
    while low <= last:
        end = min(last, low + count - 1)
        for records in await _read_run(view, low, end):
            if records is not None and records.slots:
                return records
        low = end + 1
        count = min(count * 2, GALLOP_ENTRIES_MAX)
    return None


def _reaches(view: SegmentView, entry: Entry, txid: TxId) -> bool:
    slots = read_slots(view.metadata, entry)
    return bool(slots) and slots[-1][1].txid >= txid


async def _read_run(
    view: SegmentView, first: EntryId, last: EntryId
) -> Sequence[EntryRecords | None]:
    """Return what readers see of some entries; None for those that cannot be read."""
    try:
        return [visible_records(view.metadata, entry) for entry in await view.read(first, last)]
    except DAMAGED:
        entries = await _read_each(view, range(first, last + 1))
        return [None if each is None else visible_records(view.metadata, each) for each in entries]


async def _read_each(view: SegmentView, entry_ids: Sequence[EntryId]) -> list[Entry | None]:
    return await together([_read_one(view, entry_id) for entry_id in entry_ids])


async def _read_one(view: SegmentView, entry_id: EntryId) -> Entry | None:
    """Return an entry, None if it is damaged: its bytes, or what should be an envelope."""
    try:
        (entry,) = await view.read(entry_id, entry_id)
        read_slots(view.metadata, entry)
    except DAMAGED:
        return None
    return entry
