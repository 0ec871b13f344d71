"""What a completed segment holds, in blocks: from memory while it is there, else from its ledger.

A head that was written lately is in the tail cache. There a pass of the cleaner has it for the
asking, twice; read from bookies, half of a broker's share of a pass was that. What the cache gives
up meanwhile is read from where it ends.
"""

from bisect import bisect_left
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING

from tailrace.broker.partition.offsets import SegmentIndex
from tailrace.broker.partition.partition_log import PartitionLog
from tailrace.compaction.cleaner.cleanable import StoredBatches
from tailrace.core.errors import LogTruncated
from tailrace.core.log.reader_settings import ReadRules
from tailrace.core.metadata.segment_metadata import SegmentMetadata
from tailrace.protocol.distributedlog.dlsn import DLSN
from tailrace.protocol.ids import Buffer, Offset
from tailrace.protocol.records.batch import read_header

if TYPE_CHECKING:
    from tailrace.protocol.ids import EntryId


async def segment_blocks(
    log: PartitionLog, lssn: int, block_bytes: Callable[[], int]
) -> AsyncGenerator[StoredBatches, None]:
    """Yield batches of about `block_bytes()` at a time, which is asked before each block.

    Errors: CoreError; LogTruncated if the segment is gone. Memory: a block.
    """
    segment = log.log.segments.find(lssn)
    if segment is None:
        raise LogTruncated(f"{log.partition} has no segment {lssn}")
    index = log.segments.written_here(lssn)
    offset: Offset | None = None
    if index is not None and _is_cached(log, index):
        offset = index.first_offset
        while batches := _cached(log, index, offset, block_bytes()):
            entry = index.entry_before(offset)  # it, or one close behind it
            yield StoredBatches(lssn, segment.ledger_id, batches, [entry or 0] * len(batches))
            offset = Offset(read_header(batches[-1]).last_offset + 1)
        if offset >= index.next_offset:
            return
    async with aclosing(_stored(log, segment, offset, block_bytes)) as blocks:
        async for block in blocks:
            yield block


def _is_cached(log: PartitionLog, index: SegmentIndex) -> bool:
    """Whether a segment's beginning is in memory, and nothing of it was deleted since."""
    return log.log_start_offset <= index.first_offset and log.tail.holds(index.first_offset)


def _cached(
    log: PartitionLog, index: SegmentIndex, offset: Offset, size_bytes: int
) -> Sequence[Buffer]:
    found = log.tail.read(offset, size_bytes, at_least_one=True, end=index.next_offset)
    return () if found is None else found.parts


async def _stored(
    log: PartitionLog,
    segment: SegmentMetadata,
    offset: Offset | None,
    block_bytes: Callable[[], int],
) -> AsyncGenerator[StoredBatches, None]:
    """Yield what a segment holds from its beginning or an offset on. Errors: CoreError."""
    lssn = segment.lssn
    # The pass itself reads one block ahead: more would be far beyond what it may read a second.
    start: DLSN | Offset = DLSN(lssn, 0, 0) if offset is None else offset
    near = None if offset is None else await log.locate(offset)
    rules = ReadRules(through_lssn=lssn)
    reader = await log.log.open_reader(start, near, reads_ahead=False, rules=rules)
    try:
        while entries := await reader.read_entries(block_bytes()):
            batches: list[Buffer] = []
            places: list[EntryId] = []
            for entry in entries:
                before = 0 if offset is None else bisect_left(entry.columns.txids, offset)
                payloads = entry.columns.payloads[before:]
                batches += payloads
                places += [entry.entry_id] * len(payloads)
            if batches:
                yield StoredBatches(lssn, segment.ledger_id, batches, places)
            if entries[-1].columns.txids[-1] == segment.last_txid:
                return  # it need not be asked where it ends
    finally:
        await reader.close()
