"""Taking over a log: stop whoever wrote it, find the end of each segment, restore the state.

Invariant: afterwards no segment is in progress, nobody else can add a record that anybody will see,
and everything that was ever confirmed is in the list. Recovering twice, or by two at once, is
harmless: the loser's multi fails.
Source: reference DistributedLog 5.8; ARCHITECTURE D6.
"""

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import Final, NamedTuple, TypeVar

from tailrace.core.errors import CorruptData, LedgerNotFound
from tailrace.core.ledger.client import LedgerClient
from tailrace.core.log.context import LogContext
from tailrace.core.log.entries import read_slots, visible_records
from tailrace.core.log.ledger_scan import scan_ledger
from tailrace.core.log.owner import SegmentState
from tailrace.core.log.owner_records import (
    INDEX_MAGIC,
    SNAPSHOT_MAGIC,
    OwnerPart,
    SegmentIndex,
    join_index,
    join_snapshot,
    read_part,
)
from tailrace.core.log.search import DAMAGED
from tailrace.core.log.segment_ledger import SegmentLedger
from tailrace.core.log.segment_nodes import SegmentNodes
from tailrace.core.log.segments import SegmentEnd, SegmentList
from tailrace.core.metadata.segment_metadata import INVALID_TXID, SegmentMetadata
from tailrace.core.runtime.tasks import together
from tailrace.protocol.bookkeeper.entry import Entry
from tailrace.protocol.distributedlog.record_set import count_records
from tailrace.protocol.errors import DecodeError
from tailrace.protocol.ids import NO_ENTRY, EntryId, TxId

logger = logging.getLogger(__name__)

_T = TypeVar("_T")

OpenSegment = Callable[[SegmentMetadata], Awaitable[SegmentLedger]]

_UNWRITTEN_ENTRIES_MAX: Final = 64
"""A segment with more entries is taken to hold records without looking at each of them."""

_RECOVERIES_AT_ONCE: Final = 4
"""More than two segments in progress are another library's."""

_NEVER_WRITTEN: Final = SegmentEnd(INVALID_TXID, 0, NO_ENTRY, NO_ENTRY)


class _Recovered(NamedTuple):
    segment: SegmentMetadata
    end: SegmentEnd
    has_records: bool
    is_lost: bool = False
    """The ledger is not there."""


async def recover_segments(
    segments: SegmentList, nodes: SegmentNodes, context: LogContext
) -> SegmentList:
    """Fence, recover and complete what is in progress; return the list as it then is.

    Ledgers are recovered side by side: of two segments in progress, which a crash in the middle of
    a roll leaves, the newer one got nothing before all of the older one was confirmed. Segments are
    completed in their order. One at the end without an entry is deleted, and one without any user
    record, confirmed or not, if its first txid is that of a record that was lost: completing it
    would push the highest txid there, and the next record would seem out of order.
    Errors: BookieUnavailable (try again), CorruptData, OwnershipLost (somebody else recovers).
    """
    ledgers, clock = context.ledgers, context.clock
    began_s = clock.monotonic_s()
    recovered = await _recover_all([s for s in segments if s.in_progress], ledgers)
    context.metrics.ledger_recovery_ms = round(1000 * (clock.monotonic_s() - began_s))
    while recovered and _is_to_be_deleted(recovered[-1], _txid_before(recovered, segments)):
        segment, _, _, is_lost = recovered.pop()
        level = logging.WARNING if is_lost else logging.INFO
        why = "no ledger" if is_lost else "no records"
        logger.log(
            level, "segment_deleted lssn=%d ledger=%d why=%s", segment.lssn, segment.ledger_id, why
        )
        await ledgers.delete_ledger(segment.ledger_id)
        await nodes.delete_unwritten(segment)
        segments = segments.without(segment.lssn)
    for segment, end, _, is_lost in recovered:
        if is_lost:
            raise CorruptData(f"ledger {segment.ledger_id} of segment {segment.lssn} is gone")
        last_txid = segment.first_txid if end is _NEVER_WRITTEN else end.last_txid
        completed = segments.completed(
            segment, end._replace(last_txid=last_txid), context.clock.now_ms()
        )
        await nodes.complete(completed)
        segments = segments.with_segment(completed)
        context.metrics.segments_recovered_total += 1
        logger.info("segment_recovered lssn=%d last_txid=%d", segment.lssn, last_txid)
    return segments


async def _recover_all(
    segments: Sequence[SegmentMetadata], ledgers: LedgerClient
) -> list[_Recovered]:
    recovered: list[_Recovered] = []
    for at in range(0, len(segments), _RECOVERIES_AT_ONCE):
        some = segments[at : at + _RECOVERIES_AT_ONCE]
        recovered += await together([_recover(segment, ledgers) for segment in some])
    return recovered


def _txid_before(recovered: Sequence[_Recovered], segments: SegmentList) -> TxId:
    """Return the highest txid of the log without the last recovered segment."""
    ends = [each.end.last_txid for each in recovered[:-1] if each.has_records]
    return max([segments.last_txid, *ends])


def _is_to_be_deleted(last: _Recovered, txid_before: TxId) -> bool:
    is_empty = last.end is _NEVER_WRITTEN
    return not last.has_records and (is_empty or last.segment.first_txid > txid_before)


async def _recover(segment: SegmentMetadata, ledgers: LedgerClient) -> _Recovered:
    try:
        ledger, last_entry = await ledgers.recover_ledger(segment.ledger_id)
    except LedgerNotFound:
        # Deleting a segment without records stopped between its ledger and its node.
        return _Recovered(segment, _NEVER_WRITTEN, has_records=False, is_lost=True)
    last = ledger.last_confirmed
    if last == NO_ENTRY:
        return _Recovered(segment, _NEVER_WRITTEN, has_records=False)
    if last_entry is None:  # somebody else recovered it
        (last_entry,) = await ledger.read(last, last)
    end, is_control = _end(segment, last_entry)
    has_records = not is_control or end.record_count > 0
    if not has_records:  # Java can be told not to count
        has_records = await _any_record(segment, ledger, last)
    return _Recovered(segment, end, has_records)


def _end(segment: SegmentMetadata, entry: Entry) -> tuple[SegmentEnd, bool]:
    """Return where the last entry of a segment ends it, and whether with a control record."""
    slots = read_slots(segment, entry)
    if not slots or slots[-1][1].txid == INVALID_TXID:
        raise CorruptData(f"the last entry of ledger {segment.ledger_id} has no record in it")
    slot, record = slots[-1]
    try:
        more = count_records(record) - 1
    except DecodeError as error:
        raise CorruptData(f"the last record of ledger {segment.ledger_id}: {error}") from error
    end = SegmentEnd(record.txid, record.position + more, entry.entry_id, slot + more)
    return end, record.is_control


async def _any_record(segment: SegmentMetadata, ledger: SegmentLedger, last: EntryId) -> bool:
    if last >= _UNWRITTEN_ENTRIES_MAX:
        return True
    for entry_id in range(last + 1):
        entry = (await ledger.read(entry_id, entry_id))[0]
        if not all(record.is_control for _, record in read_slots(segment, entry)):
            return True
    return False


class FoundState(NamedTuple):
    """What the newest segment that tells says of the owner's state."""

    snapshot: bytes
    replay_from: int
    """LSSN of the first segment whose records the snapshot does not know."""


async def find_state(segments: SegmentList, open_segment: OpenSegment) -> FoundState | None:
    """Return the newest state that the owners of these segments left; None when there is none.

    What cannot be read does not count: the records since the state before it say as much.
    Cost: one entry after a clean end, two or more per segment that does not tell.
    """
    for segment in reversed(segments.segments):
        ledger = await open_segment(segment)
        index = await if_readable(read_index(segment, ledger), segment)
        if index is not None:
            return FoundState(index.end_snapshot, segment.lssn + 1)
        snapshot = await if_readable(read_snapshot(segment, ledger), segment)
        if snapshot is not None:
            return FoundState(snapshot, segment.lssn)
    return None


async def if_readable(record: Awaitable[_T | None], segment: SegmentMetadata) -> _T | None:
    """Return what an owner's record says; None, and a line in the log, if it is damaged."""
    try:
        return await record
    except DAMAGED as error:
        logger.error("owner_record_unreadable lssn=%d error=%r", segment.lssn, error)  # noqa: TRY400
        return None


async def restore_state(
    found: FoundState | None,
    segments: SegmentList,
    open_segment: OpenSegment,
    state: SegmentState,
    context: LogContext,
) -> None:
    """Give the state what it had at the end of the log; all segments are completed.

    Cost: nothing after a clean end; after a crash the newest segment is read; a log of another
    library from its beginning (`found` is None, `segments` the whole list).
    """
    state.restore(None if found is None else found.snapshot or None)
    for segment in segments:
        if found is None or segment.lssn >= found.replay_from:
            await _replay(segment, await open_segment(segment), state, context)


async def read_index(segment: SegmentMetadata, ledger: SegmentLedger) -> SegmentIndex | None:
    """Return what the last control records of a completed segment say; None without any.

    Errors: CorruptData. Cost: one read, more only for an index above a megabyte.
    """
    last = ledger.last_confirmed
    part = await _read_part(segment, ledger, last) if last >= 0 else None
    if part is None or part.magic != INDEX_MAGIC or part.number != part.total - 1:
        return None
    parts = await _read_parts(segment, ledger, last - part.number, last - 1)
    if parts is None:
        return None
    try:
        return join_index([*parts, part])
    except DecodeError as error:
        raise CorruptData(f"index of ledger {segment.ledger_id}: {error}") from error


async def read_snapshot(segment: SegmentMetadata, ledger: SegmentLedger) -> bytes | None:
    """Return what the first control records of a segment say; None without any.

    Errors: CorruptData. Cost: one read, more only for a snapshot above a megabyte.
    """
    last = ledger.last_confirmed
    part = await _read_part(segment, ledger, 0) if last >= 0 else None
    if part is None or part.magic != SNAPSHOT_MAGIC or part.total - 1 > last:
        return None
    parts = await _read_parts(segment, ledger, 1, part.total - 1)
    if parts is None:
        return None
    try:
        return join_snapshot([part, *parts])
    except DecodeError as error:
        raise CorruptData(f"snapshot of ledger {segment.ledger_id}: {error}") from error


async def _read_parts(
    segment: SegmentMetadata, ledger: SegmentLedger, first: EntryId, last: EntryId
) -> list[OwnerPart] | None:
    """Return the parts in these entries; None when one of them is something else."""
    if first < 0:
        return None
    parts = [await _read_part(segment, ledger, entry_id) for entry_id in range(first, last + 1)]
    whole = [part for part in parts if part is not None]
    return whole if len(whole) == len(parts) else None


async def _read_part(
    segment: SegmentMetadata, ledger: SegmentLedger, entry_id: EntryId
) -> OwnerPart | None:
    entry = (await ledger.read(entry_id, entry_id))[0]
    slots = read_slots(segment, entry)
    if len(slots) != 1 or not slots[0][1].is_control:
        return None
    try:
        return read_part(slots[0][1].payload)
    except DecodeError as error:
        raise CorruptData(f"entry {entry_id} of ledger {segment.ledger_id}: {error}") from error


async def _replay(
    segment: SegmentMetadata, ledger: SegmentLedger, state: SegmentState, context: LogContext
) -> None:
    """Give the state a segment's records. Errors: CorruptData, EntryNotFound if one is lost.

    An entry that cannot be read may have held none, as the owner's own do: positions tell.
    """
    state.begin_segment(segment.lssn, segment.ledger_id)
    position = 0
    damage: Exception | None = None
    async with aclosing(_each_entry(ledger, context)) as found:
        async for entry in found:
            if isinstance(entry, Exception):
                damage = damage or entry
                continue
            records = visible_records(segment, entry)
            if not records.slots:
                continue
            if damage is not None and records.first_position != position + 1:
                raise damage
            position, damage = records.last_position, None
            for dlsn, record in records.records():
                context.metrics.replayed_records_total += 1
                state.replay(dlsn, record)
    is_counted = segment.record_count > 0 or segment.last_entry_id < 0
    if damage is not None and not (is_counted and position == segment.record_count):
        raise damage


async def _each_entry(
    ledger: SegmentLedger, context: LogContext
) -> AsyncGenerator[Entry | Exception, None]:
    """Yield all entries in order, for one that cannot be read the reason. Errors: others."""
    at = 0
    while at <= ledger.last_confirmed:
        try:
            async with aclosing(scan_ledger(ledger, at, context)) as scan:
                async for entries in scan:
                    for entry in entries:
                        at = entry.entry_id + 1
                        yield entry
        except DAMAGED as error:
            yield error
            at += 1
