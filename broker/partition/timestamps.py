"""Offsets by time: which record is the first of a given age, which is the newest.

Segments know their largest timestamp and have a sparse index, so at most one of them is scanned,
from a point shortly before the record; only the batch that holds it is decoded. A segment without
an index (written by another library, cut by a crash) is scanned whole.
Source: reference Kafka 5.7; UnifiedLog.fetchOffsetByTimestamp.
"""

from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from broker.partition.offsets import Totals
from broker.partition.partition_log import PartitionLog
from core.errors import CorruptData
from core.log.search import DAMAGED
from protocol.errors import DecodeError
from protocol.ids import Buffer, Offset
from protocol.records.batch import BatchHeader, read_header
from protocol.records.record import payload_of
from protocol.records.times import first_since, newest_from

SCAN_BYTES = 256 * 1024
"""Bytes read at once while a segment is scanned: about one index point."""


class TimestampedOffset(NamedTuple):
    """A record, its time, and who wrote it."""

    offset: Offset
    timestamp: int
    leader_epoch: int


async def first_at(log: PartitionLog, timestamp: int) -> TimestampedOffset | None:
    """Return the first readable record that is not older than `timestamp`. Errors: CoreError."""
    async for lssn, totals in log.segments.totals_to_trim():
        if totals.max_timestamp >= timestamp and totals.next_offset > log.log_start_offset:
            start = (await log.segments.index(lssn)).offset_before(timestamp) or 0
            found = await _scan(log, max(start, log.log_start_offset), timestamp)
            if found is not None:
                return found
    return None


async def newest(log: PartitionLog) -> TimestampedOffset | None:
    """Return the first record with the largest timestamp. Errors: CoreError."""
    best: tuple[int, Offset] | None = None
    async for _, totals in log.segments.totals_to_trim():
        if totals.next_offset <= log.log_start_offset:
            continue
        found = totals.max_timestamp, totals.max_timestamp_offset
        if totals.first_offset < log.log_start_offset:  # what it held before does not count
            found = await _newest_batch(log, totals)
        if best is None or found[0] > best[0]:
            best = found
    if best is None:
        return None
    return await _scan(log, max(best[1], log.log_start_offset), best[0])  # -1 where none has a time


async def _newest_batch(log: PartitionLog, totals: Totals) -> tuple[int, Offset]:
    """Return largest timestamp and batch of the part of a segment that is kept, by reading it."""
    start = log.log_start_offset
    best = (-1, start)
    async for batch in _batches(log, start):
        header = read_header(batch)
        if header.base_offset >= totals.next_offset:
            break
        largest = header.max_timestamp
        if header.base_offset < start and not header.is_log_append_time:
            with _corrupt_if_unreadable(header):
                largest = newest_from(*payload_of(batch), start)
        if largest > best[0]:
            best = (largest, max(header.base_offset, start))
    return best


async def _scan(log: PartitionLog, offset: Offset, timestamp: int) -> TimestampedOffset | None:
    async for batch in _batches(log, offset):
        header = read_header(batch)
        if header.max_timestamp >= timestamp:
            found = _first_in(header, batch, timestamp, log.log_start_offset)
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


def _first_in(
    header: BatchHeader, batch: Buffer, timestamp: int, start: Offset
) -> TimestampedOffset | None:
    """Return the batch's first record from `start` on that is not older than `timestamp`."""
    epoch = header.partition_leader_epoch
    if header.is_log_append_time:
        return TimestampedOffset(max(header.base_offset, start), header.max_timestamp, epoch)
    with _corrupt_if_unreadable(header):
        found = first_since(*payload_of(batch), timestamp, start)
        return None if found is None else TimestampedOffset(*found, epoch)


@contextmanager
def _corrupt_if_unreadable(header: BatchHeader) -> Iterator[None]:
    try:
        yield
    except DecodeError as error:
        raise CorruptData(f"batch at offset {header.base_offset}: {error}") from error
