"""Reads one segment in cold storage as if it were its closed ledger (SegmentLedger).

Invariant: an entry is given out only from a block whose CRC32C is right. A read is one ranged read
for each `span_bytes` that its blocks take; of what was read, the last block is kept.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from tailrace.core.errors import ColdObjectCorrupt, EntryNotFound
from tailrace.core.log.cold.format import (
    TRAILER_BYTES,
    Block,
    Index,
    decode_block,
    decode_index,
    last_entry_id,
)
from tailrace.core.log.cold.metrics import ColdMetrics
from tailrace.core.log.cold.nodes import ColdSegment
from tailrace.core.log.cold.objects import Objects
from tailrace.protocol.bookkeeper.entry import Entry
from tailrace.protocol.ids import EntryId, LedgerId

SPAN_BYTES_MAX: Final = 8 * 1024 * 1024
"""Neighbouring blocks that one ranged read brings; a larger block comes alone."""


class ColdReader:
    """A closed ledger, read from its object."""

    is_closed = True

    def __init__(
        self, cold: ColdSegment, index: Index, objects: Objects, metrics: ColdMetrics
    ) -> None:
        self.ledger_id = LedgerId(cold.metadata.ledger_id)
        self.last_confirmed = last_entry_id(index)
        self.length = cold.payload_bytes
        self._name = cold.name
        self._index = index
        self._objects = objects
        self._metrics = metrics
        self._kept: tuple[Block, list[Entry]] | None = None

    async def read(self, first: EntryId, last: EntryId) -> list[Entry]:
        """Return the entries `first`..`last`; the caller bounds the range.

        Errors: EntryNotFound behind the end; ColdObjectNotFound; ColdObjectCorrupt names the block;
        ColdStorageUnavailable, after the configured tries.
        """
        if not 0 <= first <= last <= self.last_confirmed:
            raise EntryNotFound(
                f"entries {first}..{last} of ledger {self.ledger_id}, which has"
                f" {self.last_confirmed + 1}"
            )
        numbers = self._index.block_numbers(first, last)
        blocks = [self._index.blocks[number] for number in numbers]
        entries: list[Entry] = []
        for span in spans(blocks, SPAN_BYTES_MAX):
            entries += await self._read_span(span)
        found = [entry for entry in entries if first <= entry.entry_id <= last]
        if len(found) != last - first + 1:
            raise self._corrupt(f"{self._name}: entries {first}..{last}, {len(found)} are there")
        return found

    async def read_some(self, first: EntryId, last: EntryId) -> list[Entry]:
        """Return entries from `first` on (SegmentLedger): of one span of blocks at most."""
        numbers = self._index.block_numbers(first, min(last, self.last_confirmed))
        blocks = [self._index.blocks[number] for number in numbers]
        span = next(spans(blocks, SPAN_BYTES_MAX), [])
        behind = numbers.start + len(span)
        if span and behind < len(self._index.blocks):
            last = min(last, self._index.blocks[behind].first_entry_id - 1)
        return await self.read(first, last)

    def note_confirmed(self, lac: EntryId) -> None:
        """Take no notice: the end of a closed ledger is known."""

    async def read_last_confirmed(self) -> EntryId:
        """Return the last entry."""
        return self.last_confirmed

    async def read_last_confirmed_and_entry(
        self, entry_id: EntryId, timeout_ms: int
    ) -> tuple[EntryId, Entry | None]:
        """Return the entry at once; None behind the end, where nothing will come."""
        if entry_id > self.last_confirmed:
            return self.last_confirmed, None
        return self.last_confirmed, (await self.read(entry_id, entry_id))[0]

    async def _read_span(self, blocks: Sequence[Block]) -> list[Entry]:
        if self._kept is not None and list(blocks) == [self._kept[0]]:
            return self._kept[1]
        begin = blocks[0].position
        size = blocks[-1].position + blocks[-1].size - begin
        data = memoryview(await self._objects.read(self._name, begin, size))
        self._metrics.reads_total += 1
        self._metrics.read_bytes_total += len(data)
        entries: list[Entry] = []
        for block in blocks:
            at = block.position - begin
            try:
                some = decode_block(data[at : at + block.size], block, self.ledger_id, self._name)
            except ColdObjectCorrupt:
                self._metrics.corrupt_total += 1
                raise
            entries += some
            self._kept = block, some
        return entries

    def _corrupt(self, what: str) -> ColdObjectCorrupt:
        self._metrics.corrupt_total += 1
        return ColdObjectCorrupt(what)


async def open_object(cold: ColdSegment, objects: Objects, metrics: ColdMetrics) -> ColdReader:
    """Read the index and return the reader. Errors: as ColdReader.read. Cost: one ranged read."""
    size = cold.size_bytes - TRAILER_BYTES - cold.index_at
    data = await objects.read(cold.name, cold.index_at, size)
    try:
        index = decode_index(data, cold.name)
    except ColdObjectCorrupt:
        metrics.corrupt_total += 1
        raise
    if index.crc32c != cold.crc32c:
        metrics.corrupt_total += 1
        raise ColdObjectCorrupt(f"{cold.name}: not the object that the metadata means")
    return ColdReader(cold, index, objects, metrics)


def spans(blocks: Sequence[Block], bytes_max: int) -> Iterator[list[Block]]:
    """Part neighbouring blocks into runs of at most `bytes_max`; a larger block is a run."""
    run: list[Block] = []
    size = 0
    for block in blocks:
        if run and size + block.size > bytes_max:
            yield run
            run, size = [], 0
        run.append(block)
        size += block.size
    if run:
        yield run
