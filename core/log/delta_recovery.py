"""Taking over a state that is kept in deltas: it is read from the end of the log backwards.

Invariant: what is read does not grow with the log. After a clean end it is one entry; after a crash
what lies behind the last snapshot of the newest segment, a few MiB (`state_deltas.py`). Segments of
other owners, an embedded log's or another library's, change nothing and are passed over, as far
back as their time says that what lies before still counts.
"""

import asyncio
from typing import Final

from tailrace.core.errors import CorruptData, LedgerNotFound
from tailrace.core.log.entries import control_records
from tailrace.core.log.owner import DeltaState
from tailrace.core.log.recovery import OpenSegment, read_index, read_snapshot
from tailrace.core.log.segment_ledger import SegmentLedger
from tailrace.core.log.segments import SegmentList
from tailrace.core.log.state_deltas import ENTRY_COST_BYTES, Control, FoundDeltas, find_deltas
from tailrace.core.metadata.segment_metadata import SegmentMetadata, Truncation
from tailrace.protocol.bookkeeper.entry import Entry
from tailrace.protocol.errors import DecodeError
from tailrace.protocol.ids import EntryId

_FIRST_SCAN: Final = 2
_SCAN_BYTES: Final = 1024 * 1024
"""Entries that are read together have about so many bytes, each counted as `ENTRY_COST_BYTES` more;
the first ones tell how large they are."""

_SCAN_GROWTH: Final = 8

_TURN_BYTES: Final = 64 * 1024
"""Deltas that are applied in one turn of the loop, and one more."""


async def restore_deltas(
    segments: SegmentList, open_segment: OpenSegment, state: DeltaState, now_ms: int
) -> bool:
    """Give the state what it had at the end of the log; all segments are completed.

    False: none of these segments tells, and the state is as before the first record; older ones may
    tell. Errors: CorruptData, EntryNotFound: an entry that may tell is not readable;
    BookieUnavailable; DLIllegalState: another kind of owner keeps its state there.
    Cost: one entry after a clean end; after a crash as much as lies between two snapshots; two
    entries for each segment that is passed over.
    """
    state.restore(None)
    for segment in reversed(segments.segments):
        if segment.completion_time_ms < now_ms - state.keep_ms:
            return True  # what lies before counts no more
        try:
            found = await _find(segment, await open_segment(segment))
        except LedgerNotFound:
            if segment.truncation is not Truncation.TRUNCATED:
                raise
            found = None
        if found is not None:
            await _give(segment, found, state)
            return True
    return False


async def _give(segment: SegmentMetadata, found: FoundDeltas, state: DeltaState) -> None:
    for _ in state.restoring(found.snapshot):
        await asyncio.sleep(0)
    given = 0
    for delta in found.deltas:
        given += len(delta.body)
        if given > _TURN_BYTES:
            given = 0
            await asyncio.sleep(0)
        try:
            state.apply(segment.lssn, delta.entry_id, delta.txid, delta.body)
        except DecodeError as error:
            raise _corrupt(segment, delta.entry_id, error) from error


async def _find(segment: SegmentMetadata, ledger: SegmentLedger) -> FoundDeltas | None:
    """Return what a completed segment tells; None if it is another owner's."""
    index = await read_index(segment, ledger)
    if index is not None:
        return FoundDeltas(index.end_snapshot, [])
    if await read_snapshot(segment, ledger) is None:
        return None
    controls: list[Control] = []
    end, count = ledger.last_confirmed + 1, _FIRST_SCAN
    while end > 0:
        first = max(end - count, 0)
        some, size = await _read_controls(segment, ledger, first, end - 1)
        controls = some + controls
        try:
            found = find_deltas(controls)
        except DecodeError as error:
            raise _corrupt(segment, first, error) from error
        if found is not None:
            return found
        fitting = _SCAN_BYTES * (end - first) // size
        end, count = first, max(1, min(fitting, _SCAN_GROWTH * count))
    raise CorruptData(f"the snapshot of ledger {segment.ledger_id} was read, and is not there")


async def _read_controls(
    segment: SegmentMetadata, ledger: SegmentLedger, first: EntryId, last: EntryId
) -> tuple[list[Control], int]:
    """Return the control records of some entries, in order, and what the entries cost."""
    controls: list[Control] = []
    size = 0
    while first <= last:
        entries = await ledger.read_some(first, last)
        for entry in entries:
            size += len(entry.payload) + ENTRY_COST_BYTES
            controls += _controls_of(segment, entry)
        first = entries[-1].entry_id + 1
    return controls, size


def _controls_of(segment: SegmentMetadata, entry: Entry) -> list[Control]:
    return [
        Control(entry.entry_id, record.txid, memoryview(bytes(record.payload)))
        for record in control_records(segment, entry)
    ]


def _corrupt(segment: SegmentMetadata, entry_id: EntryId, error: DecodeError) -> CorruptData:
    return CorruptData(f"entry {entry_id} of ledger {segment.ledger_id}: {error}")
