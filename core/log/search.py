"""Finding the first record with a transaction id not below a given one.

Invariant: txids never fall along a log, control records included (they repeat the last one), so
"the last record of an entry has txid >= X" is false and then true. Several entries are probed at
once, because a round trip costs more than a read.
Source: reference DistributedLog 7.2 step B.
"""

from bisect import bisect_left
from typing import Final

from core.log.entries import read_slots, visible_records
from core.log.segment_view import SegmentView
from core.runtime.tasks import together
from protocol.bookkeeper.entry import Entry
from protocol.distributedlog.dlsn import DLSN
from protocol.ids import EntryId, TxId

PROBES: Final = 3
"""Entries read at once per round; each round leaves a quarter of the range."""

GALLOP_ENTRIES_MAX: Final = 32


async def find_in_segment(
    view: SegmentView, txid: TxId, low: EntryId, last: EntryId
) -> DLSN | None:
    """Return the first visible record with txid >= `txid` in the entries `low`..`last`.

    Errors: as SegmentView.read.
    """
    high = last + 1  # every entry from here on reaches; `low` is the first that may
    while high - low > PROBES:
        step = (high - low) // (PROBES + 1)
        probes = [low + step * number for number in range(1, PROBES + 1)]
        for entry in await _read_all(view, probes):
            if _reaches(view, entry, txid):
                high = entry.entry_id
                break
            low = entry.entry_id + 1
    return await find_forward(view, txid, low, last)


async def find_forward(view: SegmentView, txid: TxId, low: EntryId, last: EntryId) -> DLSN | None:
    """Do the same by reading on from an entry close before the record. Cost: entries read."""
    count = 1
    while low <= last:
        for entry in await view.read(low, min(last, low + count - 1)):
            records = visible_records(view.metadata, entry)
            at = bisect_left(records.columns.txids, txid)
            if at < len(records.slots):
                return DLSN(records.lssn, records.entry_id, records.slots[at])
        low += count
        count = min(count * 2, GALLOP_ENTRIES_MAX)
    return None


def _reaches(view: SegmentView, entry: Entry, txid: TxId) -> bool:
    slots = read_slots(view.metadata, entry)
    return bool(slots) and slots[-1][1].txid >= txid


async def _read_all(view: SegmentView, entry_ids: list[EntryId]) -> list[Entry]:
    return [found[0] for found in await together([view.read(at, at) for at in entry_ids])]
