"""Partitions as the log cleaner sees them: `CleanableLog` of a partition that this broker owns."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence

from typing_extensions import override

from tailrace.broker.partition.aborted import AbortedTransaction
from tailrace.broker.partition.notes import CleanNotes
from tailrace.broker.partition.offsets import NO_TIMESTAMP, SegmentIndex
from tailrace.broker.partition.partition_log import PartitionLog
from tailrace.broker.partition.segment_blocks import segment_blocks
from tailrace.broker.partition.segment_state import encode_index
from tailrace.compaction.cleaner.cleanable import (
    AbortedRange,
    CleanableSegment,
    CleanCheckpoint,
    CleanSettings,
    LastSequence,
    SegmentCounts,
    StoredBatches,
)
from tailrace.core.errors import CoreError, CorruptData
from tailrace.core.log.config import RECORD_BYTES_MAX
from tailrace.core.log.rewrite import SegmentRewrite
from tailrace.protocol.errors import ProtocolError
from tailrace.protocol.ids import Buffer, Offset
from tailrace.protocol.records.batch import CONTROL, read_header

logger = logging.getLogger(__name__)

BATCHES_AT_ONCE = 16
"""Written before others have their turns: 0.4 ms with batches of 16 KB (2026-11-22)."""


class CleanablePartition:
    """One partition, for the cleaner. All calls come from the loop."""

    __slots__ = ("_log",)

    def __init__(self, log: PartitionLog) -> None:
        self._log = log

    @property
    def name(self) -> str:
        """Topic and partition."""
        return str(self._log.partition)

    @property
    def settings(self) -> CleanSettings:
        """What the topic's configs say now."""
        settings = self._log.settings
        return CleanSettings(
            compacts=settings.compacted,
            min_compaction_lag_ms=settings.min_compaction_lag_ms,
            max_compaction_lag_ms=settings.max_compaction_lag_ms,
            delete_retention_ms=settings.delete_retention_ms,
            min_cleanable_dirty_ratio=settings.min_cleanable_dirty_ratio,
            batch_bytes_max=RECORD_BYTES_MAX,
            segment_bytes=settings.segment_bytes,
        )

    @property
    def may_clean(self) -> bool:
        """Whether this broker still owns it and its topic is still compacted."""
        return self._log.failure is None and self._log.settings.compacted

    @property
    def log_start_offset(self) -> Offset:
        """First offset that is kept."""
        return self._log.log_start_offset

    @property
    def last_stable_offset(self) -> Offset:
        """First offset that is not decided."""
        return self._log.last_stable_offset

    async def checkpoint(self) -> CleanCheckpoint:
        """Return what was noted last. Errors: none: it is in memory while the partition is open."""
        cleaned = self._log.notes.cleaned
        if cleaned is None:
            return CleanCheckpoint()
        return CleanCheckpoint(
            cleaned.first_dirty_offset,
            cleaned.cleaned_ms,
            cleaned.bytes_before,
            cleaned.bytes_after,
        )

    async def save_checkpoint(self, checkpoint: CleanCheckpoint) -> None:
        """Note what was cleaned, on disk. Errors: CoreError."""
        await self._log.note(cleaned=CleanNotes(*checkpoint))

    async def segments(self) -> Sequence[CleanableSegment]:
        """Return all segments, oldest first. Errors: CoreError."""
        found: list[CleanableSegment] = []
        async for lssn, totals in self._log.segments.all_totals():
            segment = self._log.log.segments.find(lssn)
            if segment is None:  # purged meanwhile
                continue
            found.append(
                CleanableSegment(
                    lssn,
                    found[-1].next_offset
                    if found
                    else min(totals.first_offset, totals.next_offset),
                    totals.next_offset,
                    totals.size_bytes,
                    totals.first_timestamp,
                    totals.max_timestamp,
                    segment.in_progress,
                )
            )
        return found

    async def aborted_between(self, first: Offset, last: Offset) -> Sequence[AbortedRange]:
        """Return aborted transactions with records in the range. Errors: CoreError."""
        found = await self._log.aborted_between(first, last)
        return [AbortedRange(*each[:3]) for each in found]

    def last_sequences(self) -> Mapping[int, LastSequence]:
        """Return where producers' last sequences stand, as the log has them by now."""
        return {
            producer_id: LastSequence(*held)
            for producer_id, held in self._log.state.producers.last_sequences().items()
        }

    def read(
        self, lssn: int, block_bytes: Callable[[], int]
    ) -> AsyncGenerator[StoredBatches, None]:
        """Yield what a completed segment holds. Errors: CoreError."""
        return segment_blocks(self._log, lssn, block_bytes)

    async def rewrite(self, lssns: Sequence[int]) -> "PartitionRewrite":
        """Begin new ledgers for a run of completed segments. Errors: CoreError."""
        sources = {lssn: await self._log.segments.index(lssn) for lssn in lssns}
        return PartitionRewrite(self._log, await self._log.log.rewrite(lssns), sources)

    async def merge(self, lssns: Sequence[int]) -> "PartitionMerge":
        """Begin to put the oldest segments together. Errors: CannotRewrite; CoreError."""
        rewrite = await self._log.log.rewrite(lssns, merges=True)
        try:
            sources = {lssn: await self._log.segments.index(lssn) for lssn in lssns}
        except BaseException:
            await rewrite.abort()
            raise
        return PartitionMerge(self._log, rewrite, sources)


class PartitionRewrite:
    """A run of segments that is written anew, with what the partition knows of each."""

    def __init__(
        self, log: PartitionLog, rewrite: SegmentRewrite, sources: Mapping[int, SegmentIndex]
    ) -> None:
        self._log = log
        self._rewrite = rewrite
        self._sources = sources
        self._indexes: dict[int, SegmentIndex] = {}
        self._markers: set[Offset] = set()

    async def append(self, lssn: int, batches: Sequence[Buffer]) -> None:
        """Write batches of one segment. Errors: CoreError."""
        index = self._index(lssn)
        if batches:
            # From now on the log is read, until and after the swap: 64 MiB at once take 10 ms.
            self._log.tail.drop_before(int.from_bytes(bytes(batches[0][:8]), "big"))
        for count, batch in enumerate(batches, 1):
            if count % BATCHES_AT_ONCE == 0:
                await asyncio.sleep(0)
            try:
                header = read_header(batch)
            except ProtocolError as error:
                raise CorruptData(f"a cleaned batch of segment {lssn}: {error}") from error
            last = header.base_offset + header.last_offset_delta
            entry = await self._rewrite.append(lssn, last, (batch,), len(batch))
            if header.attributes & CONTROL and header.record_count:  # an empty one ends nothing
                self._markers.add(header.base_offset)
            index.add(
                header.base_offset,
                last,
                entry,
                len(batch),
                header.max_timestamp if header.record_count else NO_TIMESTAMP,
                header.record_count,
            )

    async def finish(self, lssn: int, counts: SegmentCounts) -> None:
        """Complete one segment. Errors: CoreError."""
        await self._finish(lssn, [self._sources[lssn]], counts)

    async def _finish(
        self, lssn: int, sources: Sequence[SegmentIndex], counts: SegmentCounts
    ) -> None:
        """Complete a segment that holds what is left of these."""
        index, last = self._index(lssn), sources[-1]
        index.next_offset = last.next_offset  # it covers what they covered
        if not index.batches:
            index.first_offset = last.next_offset
        index.tombstones, index.keys = counts.tombstones, counts.keys
        index.aborted.stable_end = last.aborted.stable_end
        for aborted in (each for source in sources for each in source.aborted.all()):
            if aborted.last_offset in self._markers:  # without it a reader would drop what follows
                index.aborted.add(AbortedTransaction(*aborted))
        end = None
        if self._rewrite.source(lssn).end is None:  # recovered: what was replayed goes with records
            end = await self._log.segments.end_snapshot(lssn)
        await self._rewrite.finish(lssn, end, encode_index(index))

    async def commit(self) -> None:
        """Swap all of them in. Errors: CoreError; BadVersion: somebody else was faster."""
        await self._rewrite.commit()
        self._log.segments.replace(self._indexes)
        self._log.tail.drop_before(max(each.next_offset for each in self._sources.values()))

    async def abort(self) -> None:
        """Delete what was written. Idempotent. Errors: none."""
        try:
            await self._rewrite.abort()
        except CoreError as error:
            logger.warning("rewrite left over partition=%s error=%r", self._log.partition, error)

    def _index(self, lssn: int) -> SegmentIndex:
        if lssn not in self._indexes:
            self._indexes[lssn] = SegmentIndex(self._sources[lssn].first_offset)
        return self._indexes[lssn]


class PartitionMerge(PartitionRewrite):
    """The oldest segments on their way into the last one of them."""

    @override
    async def append(self, lssn: int, batches: Sequence[Buffer]) -> None:
        """Write batches of one of them. Errors: CoreError."""
        await super().append(self._last, batches)

    async def finish_all(self) -> None:
        """Complete it: in clean segments each key is there once. Errors: CoreError."""
        sources = list(self._sources.values())
        await self._finish(self._last, sources, _counts_of(sources))

    @override
    async def commit(self) -> None:
        """Swap it in. Errors: as of a rewrite."""
        await super().commit()
        self._log.segments.forget_missing()

    @property
    def _last(self) -> int:
        return max(self._sources)

    @override
    def _index(self, lssn: int) -> SegmentIndex:
        if lssn not in self._indexes:
            self._indexes[lssn] = SegmentIndex(next(iter(self._sources.values())).first_offset)
        return self._indexes[lssn]


def _counts_of(sources: Sequence[SegmentIndex]) -> SegmentCounts:
    """Return what clean segments have together; unknown if it is of one of them."""
    tombstones = [each.tombstones for each in sources]
    keys = [each.keys for each in sources]
    return SegmentCounts(
        sum(tombstones) if min(tombstones) >= 0 else -1, sum(keys) if min(keys) >= 0 else -1
    )
