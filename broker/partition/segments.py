"""What each log segment of a partition holds: from memory, from its index record, or by reading it.

Segments that this owner wrote or replayed are in `PartitionState`; older ones left an index record
when they were completed. One that has none (written by another library, or completed by recovery)
is read once from end to end. Totals are kept for all segments, indexes for a few.
"""

from collections import OrderedDict
from collections.abc import AsyncIterator

from broker.partition.offsets import SegmentIndex, Totals
from broker.partition.segment_state import PartitionState, decode_index
from core.errors import CorruptData
from core.log.entries import EntryRecords
from core.log.log import Log
from protocol.distributedlog.dlsn import DLSN
from protocol.errors import ProtocolError
from protocol.ids import Buffer
from protocol.records.batch import read_header

INDEXES_KEPT = 8
SCAN_BYTES = 1024 * 1024
"""Bytes read at once from a segment without an index."""


class SegmentCatalog:
    """The segments of one partition, oldest first."""

    def __init__(self, log: Log, state: PartitionState) -> None:
        self._log = log
        self._state = state
        self._totals: dict[int, Totals] = {}
        self._indexes: OrderedDict[int, SegmentIndex] = OrderedDict()

    async def totals(self) -> AsyncIterator[tuple[int, Totals]]:
        """Yield sequence number and totals of every segment that has batches. Errors: CoreError."""
        await self._log.refresh()
        for segment in list(self._log.segments):
            known = self._state.indexes.get(segment.lssn)
            if known is not None:
                totals = known.totals
            elif segment.lssn in self._totals:
                totals = self._totals[segment.lssn]
            else:
                totals = (await self.index(segment.lssn)).totals
            if totals.batches:
                yield segment.lssn, totals

    async def index(self, lssn: int) -> SegmentIndex:
        """Return the index of a segment. Errors: CoreError, LogTruncated if it is gone."""
        index = self._state.indexes.get(lssn) or self._indexes.get(lssn)
        if index is None:
            data = await self._log.read_index(lssn)
            index = decode_index(data) if data else await self._read_through(lssn)
            self._totals[lssn] = index.totals
            self._indexes[lssn] = index
            if len(self._indexes) > INDEXES_KEPT:
                self._indexes.popitem(last=False)
        return index

    def forget_missing(self) -> None:
        """Drop what is known of segments that were purged."""
        there = {segment.lssn for segment in self._log.segments}
        for known in (self._totals, self._indexes, self._state.indexes):
            for lssn in [lssn for lssn in known if lssn not in there]:
                del known[lssn]

    async def _read_through(self, lssn: int) -> SegmentIndex:
        index = SegmentIndex()
        reader = await self._log.open_reader(DLSN(lssn, 0, 0))
        try:
            while entries := await reader.read_entries(SCAN_BYTES):
                for entry in entries:
                    if entry.lssn != lssn:
                        return index
                    for batch in entry.columns.payloads:
                        _count(index, entry, batch)
        finally:
            await reader.close()
        return index


def _count(index: SegmentIndex, entry: EntryRecords, batch: Buffer) -> None:
    try:
        header = read_header(batch)
    except ProtocolError as error:
        raise CorruptData(f"entry {entry.entry_id} of segment {entry.lssn}: {error}") from error
    index.add(
        header.base_offset,
        header.last_offset,
        entry.entry_id,
        len(batch),
        header.max_timestamp,
        header.record_count,
    )
