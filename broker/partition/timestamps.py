"""Offsets by time: which record is the first of a given age, which is the newest.

Segments know their largest timestamp and have a sparse index, so at most one of them is scanned,
from a point shortly before the record; only the batch that holds it is decoded. A segment without
an index (written by another library, cut by a crash) is scanned whole.
Source: reference Kafka 5.7; UnifiedLog.fetchOffsetByTimestamp.
"""

from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import NamedTuple, Protocol, TypeVar

from tailrace.broker.partition.offsets import Totals
from tailrace.broker.partition.partition_log import PartitionLog
from tailrace.core.log.search import DAMAGED
from tailrace.protocol.ids import Buffer, Offset
from tailrace.protocol.records.batch import BatchHeader, read_header
from tailrace.protocol.records.times import first_since, newest_from

T = TypeVar("T")

SCAN_BYTES = 256 * 1024
"""Bytes read at once while a segment is scanned: about one index point."""


class Walk(Protocol):
    """Looks into batches; `Walks.walk` does, where nobody else has to wait for it."""

    async def __call__(self, batch: Buffer, see: Callable[[BatchHeader, Buffer], T], /) -> T:
        """Return what `see` does of a batch's header and its records. Errors: CoreError."""


class TimestampedOffset(NamedTuple):
    """A record, its time, and who wrote it."""

    offset: Offset
    timestamp: int
    leader_epoch: int


async def first_at(log: PartitionLog, timestamp: int, walk: Walk) -> TimestampedOffset | None:
    """Return the first readable record that is not older than `timestamp`. Errors: CoreError."""
    async for lssn, totals in log.segments.totals_to_trim():
        if totals.max_timestamp >= timestamp and totals.next_offset > log.log_start_offset:
            start = (await log.segments.index(lssn)).offset_before(timestamp) or 0
            found = await _scan(log, max(start, log.log_start_offset), timestamp, walk)
            if found is not None:
                return found
    return None


async def newest(log: PartitionLog, walk: Walk) -> TimestampedOffset | None:
    """Return the first record with the largest timestamp. Errors: CoreError."""
    best: tuple[int, Offset] | None = None
    async for _, totals in log.segments.totals_to_trim():
        if totals.next_offset <= log.log_start_offset:
            continue
        found = totals.max_timestamp, totals.max_timestamp_offset
        if totals.first_offset < log.log_start_offset:  # what it held before does not count
            found = await _newest_batch(log, totals, walk)
        if best is None or found[0] > best[0]:
            best = found
    if best is None:
        return None
    at, time = max(best[1], log.log_start_offset), best[0]  # -1 where none has a time
    return await _scan(log, at, time, walk)


async def _newest_batch(log: PartitionLog, totals: Totals, walk: Walk) -> tuple[int, Offset]:
    """Return largest timestamp and batch of the part of a segment that is kept, by reading it."""
    start = log.log_start_offset
    best = (-1, start)
    async for batch in _batches(log, start):
        header = read_header(batch)
        if header.base_offset >= totals.next_offset:
            break
        largest = header.max_timestamp
        if header.base_offset < start and not header.is_log_append_time:
            largest = await walk(batch, partial(newest_from, first=start))
        if largest > best[0]:
            best = (largest, max(header.base_offset, start))
    return best


async def _scan(
    log: PartitionLog, offset: Offset, timestamp: int, walk: Walk
) -> TimestampedOffset | None:
    async for batch in _batches(log, offset):
        header = read_header(batch)
        if header.max_timestamp >= timestamp:
            found = await _first_in(batch, timestamp, log.log_start_offset, walk)
            if found is not None:
                return found
    return None


async def _batches(log: PartitionLog, offset: Offset) -> AsyncIterator[Buffer]:
    """Yield batches from the one that holds `offset` on, without those that are damaged."""
    while True:
        try:
            batches = await log.read(offset, SCAN_BYTES)
        except DAMAGED:
            batches = await log.read_around(offset, SCAN_BYTES)
        for batch in batches:
            yield batch
        if not batches:
            return
        offset = read_header(batches[-1]).last_offset + 1


async def _first_in(
    batch: Buffer, timestamp: int, start: Offset, walk: Walk
) -> TimestampedOffset | None:
    """Return the batch's first record from `start` on that is not older than `timestamp`."""
    header = read_header(batch)
    epoch = header.partition_leader_epoch
    if header.is_log_append_time:
        return TimestampedOffset(max(header.base_offset, start), header.max_timestamp, epoch)
    found = await walk(batch, partial(first_since, since=timestamp, first=start))
    return None if found is None else TimestampedOffset(*found, epoch)
