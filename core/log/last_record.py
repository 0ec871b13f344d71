"""The last record of a segment, and counting records.

Source: reference DistributedLog 5.8 (the backward scan), 7.9; ReadUtils.
"""

from typing import Final, NamedTuple

from tailrace.core.errors import CorruptData
from tailrace.core.log.entries import read_slots, visible_records
from tailrace.core.log.log import Log
from tailrace.core.log.segment_ledger import SegmentLedger
from tailrace.core.log.segment_view import SegmentView
from tailrace.core.metadata.segment_metadata import SegmentMetadata
from tailrace.protocol.bookkeeper.entry import Entry
from tailrace.protocol.distributedlog.dlsn import DLSN
from tailrace.protocol.distributedlog.record_set import count_records
from tailrace.protocol.errors import DecodeError
from tailrace.protocol.ids import EntryId, TxId

_FIRST_SCAN: Final = 2
_SCAN_MAX: Final = 16
"""DistributedLog's firstNumEntriesEachPerLastRecordScan and maxNumEntriesPerReadLastRecordScan."""


class LastRecord(NamedTuple):
    """Where the records of a segment end; the end of the stream counts, control records do not."""

    dlsn: DLSN
    txid: TxId
    position: int
    """Number of records in the segment up to here."""


async def find_last_record(
    segment: SegmentMetadata, ledger: SegmentLedger, last: EntryId
) -> LastRecord | None:
    """Return the last record in the entries up to `last`; None when there is none.

    Errors: CorruptData; as SegmentLedger.read. Cost: 2, 4, 8, 16, 16, ... entries from the end.
    """
    count = _FIRST_SCAN
    while last >= 0:
        first = max(last - count + 1, 0)
        for entry in reversed(await ledger.read(first, last)):
            found = _last_of(segment, entry)
            if found is not None:
                return found
        last = first - 1
        count = min(count * 2, _SCAN_MAX)
    return None


async def count_all(log: Log) -> int:
    """Return how many records a log has by its metadata, those in writing by their last record.

    What was truncated and is not deleted counts. Errors: LogNotFound; BookieUnavailable,
    CorruptData. Cost: one segment's end is read.
    """
    await log.refresh()
    return sum([await _count_of(log, segment) for segment in log.segments])


async def count_from(log: Log, start: DLSN) -> int:
    """Return how many records there are with DLSN >= `start`.

    Errors, cost: as `count_all`; and the entries from `start` to the first record are read.
    """
    await log.refresh()
    total = 0
    for segment in log.segments:
        if segment.lssn > start.lssn:
            total += await _count_of(log, segment)
        elif segment.lssn == start.lssn:
            total += await _count_behind(log, segment, start)
    return total


async def _count_of(log: Log, segment: SegmentMetadata) -> int:
    if not segment.in_progress:
        return segment.record_count
    view = await log.view(segment.lssn)
    found = await find_last_record(view.metadata, view.ledger, (await view.readable()).last)
    return 0 if found is None else found.position


async def _count_behind(log: Log, segment: SegmentMetadata, start: DLSN) -> int:
    view = await log.view(segment.lssn)
    end = (await view.readable()).last
    first = await _first_position(view, start, end)
    if first is None:
        return 0
    last = await find_last_record(view.metadata, view.ledger, end)
    return 0 if last is None else last.position + 1 - first


async def _first_position(view: SegmentView, start: DLSN, end: EntryId) -> int | None:
    """Return the position of the first record at or behind `start`."""
    at, count = max(start.entry_id, 0), _FIRST_SCAN
    while at <= end:
        for entry in await view.read(at, min(at + count - 1, end)):
            records = visible_records(view.metadata, entry)
            if entry.entry_id == start.entry_id:
                records = records.from_slot(start.slot)
            for found in records.records():
                return found.record.position
        at += count
        count = min(count * 2, _SCAN_MAX)
    return None


def _last_of(segment: SegmentMetadata, entry: Entry) -> LastRecord | None:
    for slot, record in reversed(read_slots(segment, entry)):
        if record.is_control:
            continue
        try:
            more = count_records(record) - 1
        except DecodeError as error:
            raise CorruptData(f"entry {entry.entry_id} of {entry.ledger_id}: {error}") from error
        dlsn = DLSN(segment.lssn, entry.entry_id, slot + more)
        return LastRecord(dlsn, record.txid, record.position + more)
    return None
