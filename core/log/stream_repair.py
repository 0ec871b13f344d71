"""Mending the metadata of a log: ends that were recorded too small, and numbers that came too low.

Whoever changes anything holds the log's lock, so a log that somebody writes is refused. Each change
is one multi that names what it saw; a crash leaves a log that is mended further by doing it again.
Source: reference DistributedLog 4.6, 11 (dlck, repairseqno); DistributedLogAdmin, DLAuditor.
"""

import logging
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Final, NamedTuple

from tailrace.core.errors import DLIllegalState, LedgerNotFound, NoNode
from tailrace.core.ledger.client import LedgerClient
from tailrace.core.log.cold.nodes import encode_cold, read_cold
from tailrace.core.log.last_record import LastRecord, find_last_record
from tailrace.core.log.ownership import Ownership
from tailrace.core.log.purged import PurgedNodes
from tailrace.core.log.stream_inspection import StoredSegment, read_stream
from tailrace.core.metadata.layout import LogPaths
from tailrace.core.metadata.segment_metadata import (
    SegmentMetadata,
    encode_segment,
    in_progress_name,
)
from tailrace.core.metadata.store import Create, Delete, MetadataStore, Op, SetData
from tailrace.core.runtime.decimal_text import INT64_MAX, decimal

logger = logging.getLogger(__name__)

_ENDS_SINCE: Final = 2
"""Version of the metadata that first had a last entry."""

_MENDED_AT_ONCE: Final = 500


class EndCheck(NamedTuple):
    """What a completed segment says of its end, and what its ledger holds."""

    stored: StoredSegment
    said: SegmentMetadata
    found: LastRecord | None
    """None: no record that a reader sees."""
    mended: SegmentMetadata
    """As `said`, with an end that is not before the ledger's."""

    @property
    def is_too_small(self) -> bool:
        """Whether the metadata must be mended."""
        return self.mended != self.said


@asynccontextmanager
async def holding_lock(
    store: MetadataStore, paths: LogPaths, client_id: str, wait_ms: int = 0
) -> AsyncIterator[Ownership]:
    """Hold a log's lock during the block; ask it before each change.

    Errors: OwnershipAcquireFailed names who has it.
    """
    ownership = Ownership(store, paths.lock, client_id)
    await ownership.acquire(wait_ms)
    try:
        yield ownership
    finally:
        await ownership.release()


async def check_ends(
    ledgers: LedgerClient, segments: Iterable[StoredSegment]
) -> AsyncIterator[EndCheck]:
    """Read the last record of each completed segment again.

    Segments in progress, and those whose ledger is not there, are passed over: `find_problems`
    tells of them. Errors: BookieUnavailable, CorruptData.
    """
    for stored in segments:
        segment = stored.segment
        if segment is None or segment.in_progress:
            continue
        try:
            ledger = await ledgers.open_ledger(segment.ledger_id, recover=False)
        except LedgerNotFound:
            continue
        found = await find_last_record(segment, ledger, ledger.last_confirmed)
        yield EndCheck(stored, segment, found, _with_end(segment, found))


async def repair_ends(
    store: MetadataStore, ledgers: LedgerClient, paths: LogPaths
) -> list[EndCheck]:
    """Check all ends, and record those that are too small. For who holds the lock.

    One multi for up to 500 segments, under the guard of those who truncate and purge without it.
    Errors: as `check_ends`; MetadataConflict when segments, or `maxtxid`, changed: try again.
    """
    guard = PurgedNodes(store, paths)
    version = await guard.version()
    stream = await read_stream(store, ledgers, paths)
    checks = [each async for each in check_ends(ledgers, stream.segments)]
    small = [each for each in checks if each.is_too_small]
    for at in range(0, len(small), _MENDED_AT_ONCE):
        ops = await _mending(store, paths, small[at : at + _MENDED_AT_ONCE])
        version = (await store.multi([guard.guard(version), *ops]))[0]
        logger.info("segment_ends_mended log=%s ops=%d", paths.log, len(ops))
    return checks


async def _mending(store: MetadataStore, paths: LogPaths, small: Sequence[EndCheck]) -> list[Op]:
    ops: list[Op] = []
    cold = await read_cold(store, paths, [check.mended.lssn for check in small])
    for check in small:
        there = cold.get(check.mended.lssn)
        if there is not None and there.is_copy_of(check.mended):
            copy = there.with_metadata(check.mended)  # it says the same; the guard keeps others off
            ops.append(SetData(paths.cold_segment(check.mended.lssn), encode_cold(copy)))
        path = paths.segment(check.stored.node_name)
        ops += (Delete(path, check.stored.version), Create(path, encode_segment(check.mended)))
    max_txid = await store.get(paths.max_txid)
    last = max(check.mended.last_txid for check in small)
    known = decimal(max_txid.data.decode("latin-1"), least=-INT64_MAX - 1)
    if known is None or last > known:
        ops.append(SetData(paths.max_txid, str(last).encode(), max_txid.version))
    return ops


def plan_renumbering(segments: Iterable[StoredSegment]) -> tuple[StoredSegment, int] | None:
    """Return the segment in progress whose number is too low, and the one that it must get.

    None: nothing to do. Errors: DLIllegalState when there are several in progress, or when the one
    has the ledger of a completed segment.
    """
    known = [(stored, stored.segment) for stored in segments if stored.segment is not None]
    completed = [segment for _, segment in known if not segment.in_progress]
    writing = [(stored, segment) for stored, segment in known if segment.in_progress]
    last = max((segment.lssn for segment in completed), default=0)
    if len(writing) > 1:
        names = ", ".join(stored.node_name for stored, _ in writing)
        raise DLIllegalState(f"several segments in progress: {names}")
    if not writing or writing[0][1].lssn > last:
        return None
    stored, segment = writing[0]
    if any(other.ledger_id == segment.ledger_id for other in completed):
        raise DLIllegalState(f"the ledger of {stored.node_name} is that of a completed segment")
    return stored, last + 1


async def renumber(
    store: MetadataStore, paths: LogPaths, stored: StoredSegment, lssn: int
) -> SegmentMetadata:
    """Give a segment in progress another number, and the counter as well. For who holds the lock.

    Errors: MetadataConflict when something changed meanwhile: look again.
    """
    assert stored.segment is not None, "a segment that was planned"
    segment = replace(stored.segment, lssn=lssn, node_name="")
    counter = await store.exists(paths.segments)
    if counter is None:
        raise NoNode(paths.segments)
    await store.multi(
        [
            Delete(paths.segment(stored.node_name), stored.version),
            Create(paths.segment(in_progress_name(lssn)), encode_segment(segment)),
            SetData(paths.segments, str(lssn).encode(), counter.version),
        ]
    )
    logger.info("segment_renumbered log=%s from=%s to=%d", paths.log, stored.node_name, lssn)
    return segment


def _with_end(segment: SegmentMetadata, found: LastRecord | None) -> SegmentMetadata:
    """Return the metadata with the larger of what it says and what is there."""
    if found is None or segment.version < _ENDS_SINCE:
        return segment
    said = (segment.last_entry_id, segment.last_slot)
    entry_id, slot = max(said, (found.dlsn.entry_id, found.dlsn.slot))
    return replace(
        segment,
        last_entry_id=entry_id,
        last_slot=slot,
        last_txid=max(segment.last_txid, found.txid),
        record_count=max(segment.record_count, found.position),
    )
