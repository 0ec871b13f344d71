"""What segments hold before they are rewritten, each by itself or several together."""

from collections.abc import Sequence
from dataclasses import replace

from tailrace.core.errors import CannotRewrite
from tailrace.core.log.context import LogContext
from tailrace.core.log.entries import visible_records
from tailrace.core.log.recovery import read_index, read_snapshot
from tailrace.core.log.segment_copy import CopySource
from tailrace.core.log.segment_ledger import SegmentLedger
from tailrace.core.log.tiered import open_segment
from tailrace.core.metadata.layout import LogPaths
from tailrace.core.metadata.segment_metadata import SegmentMetadata, Truncation
from tailrace.protocol.ids import TxId


async def read_source(segment: SegmentMetadata, paths: LogPaths, context: LogContext) -> CopySource:
    """Return what a completed segment is. Errors: as `open_segment`. Cost: two or three entries."""
    ledger = await open_segment(segment, paths, context)
    return CopySource(
        segment,
        await read_snapshot(segment, ledger),
        await read_index(segment, ledger),
        await _active_from(segment, ledger),
    )


def merged_source(sources: Sequence[CopySource], oldest_lssn: int, log: str) -> CopySource:
    """Return what the oldest segments of a log together are, under the number of the last one.

    Errors: CannotRewrite: they are not the oldest ones, or truncated; ValueError for a hole.
    """
    first, last = sources[0].metadata, sources[-1].metadata
    where = f"segments {first.lssn} to {last.lssn} of {log}"
    if [each.metadata.lssn for each in sources] != list(range(first.lssn, last.lssn + 1)):
        raise ValueError(f"{where} are not merged with a hole")
    if first.lssn != oldest_lssn:
        raise CannotRewrite(f"{where} are not the oldest ones: a hole would be left")
    if any(each.metadata.truncation is not Truncation.ACTIVE for each in sources):
        raise CannotRewrite(f"{where} are truncated")
    metadata = replace(last, first_txid=first.first_txid)
    return CopySource(metadata, sources[0].snapshot, sources[-1].end, None)


async def _active_from(segment: SegmentMetadata, ledger: SegmentLedger) -> TxId | None:
    """Return the txid of the first record of a partially truncated segment that is kept."""
    if segment.truncation is not Truncation.PARTIALLY_TRUNCATED:
        return None
    first = segment.min_active_entry_id
    for entry_id in range(first, ledger.last_confirmed + 1):
        records = visible_records(segment, (await ledger.read(entry_id, entry_id))[0])
        if entry_id == first:
            records = records.from_slot(segment.min_active_slot)
        if records.slots:
            return records.columns.txids[0]
    return None
