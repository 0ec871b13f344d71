"""What ReadLast and ListSegments answer: the last record, the segments as messages."""

from collections.abc import Iterable
from typing import Final

from tailrace.core.log.entries import EntryRecords, visible_records
from tailrace.core.log.log import Log
from tailrace.core.log.segment_view import SegmentView
from tailrace.core.log.segments import last_dlsn
from tailrace.core.metadata.segment_metadata import SegmentMetadata, Truncation
from tailrace.protocol.distributedlog.dlsn import DLSN
from tailrace.protocol.ids import EntryId
from tailrace.protocol.proxy.common_pb2 import Dlsn
from tailrace.protocol.proxy.read_proxy_pb2 import LogRecord, LogSegment
from tailrace.proxy.reading.message import add_records
from tailrace.proxy.reading.stream_feeds import OLDEST

SEGMENTS_MAX: Final = 5_000
"""Of one answer: 0.5 MB at most, and 20 ms of work."""

_FIRST_SCAN: Final = 2
_SCAN_MAX: Final = 16
"""Entries read at once from a segment's end on, as DistributedLog's scan for the last record."""


async def last_record(log: Log) -> LogRecord | None:
    """Return the last record that can be read; None without one.

    Errors: LogNotFound; BookieUnavailable, CorruptData, EntryNotFound, LedgerNotFound.
    Cost: a request to a quorum at the tail; two entries, more where only control records are.
    """
    await log.refresh()
    oldest = log.first_readable(OLDEST)
    for segment in reversed(log.segments.segments):
        if segment.lssn < oldest.lssn:
            break
        if segment.in_progress or segment.record_count:
            view = await log.view(segment.lssn)
            low = max(oldest.entry_id, 0) if segment.lssn == oldest.lssn else 0
            found = await _last_in(view, low)
            if found is not None and last_dlsn_of(found) >= oldest:
                return add_records([found], log.segments)[0]
    return None


def last_dlsn_of(records: EntryRecords) -> DLSN:
    """Return where the last record of an entry is."""
    return DLSN(records.lssn, records.entry_id, records.slots[-1])


async def _last_in(view: SegmentView, low: EntryId) -> EntryRecords | None:
    """Return the last visible record of a segment alone. Errors: as SegmentView.read."""
    last = (await view.readable()).last
    count = _FIRST_SCAN
    while last >= low:
        first = max(last - count + 1, low)
        for entry in reversed(await view.read(first, last)):
            records = visible_records(view.metadata, entry)
            if records.slots:
                return records.behind(len(records.slots) - 1)
        last = first - 1
        count = min(count * 2, _SCAN_MAX)
    return None


def segment_messages(segments: Iterable[SegmentMetadata]) -> list[LogSegment]:
    """Return segments as messages, in their order."""
    return [_segment_message(segment) for segment in segments]


def _segment_message(segment: SegmentMetadata) -> LogSegment:
    message = LogSegment(
        log_segment_sequence_number=segment.lssn,
        first_transaction_id=segment.first_txid,
        in_progress=segment.in_progress,
        truncation_status=LogSegment.TruncationStatus.Name(segment.truncation),
    )
    if not segment.in_progress:
        message.last_transaction_id = segment.last_txid
        message.last_dlsn.CopyFrom(_dlsn(last_dlsn(segment)))
        message.record_count = segment.record_count
        message.completion_time_ms = segment.completion_time_ms
    if segment.truncation is Truncation.PARTIALLY_TRUNCATED:
        active = DLSN(segment.lssn, segment.min_active_entry_id, segment.min_active_slot)
        message.min_active_dlsn.CopyFrom(_dlsn(active))
    return message


def _dlsn(dlsn: DLSN) -> Dlsn:
    return Dlsn(log_segment_sequence_number=dlsn.lssn, entry_id=dlsn.entry_id, slot_id=dlsn.slot)
