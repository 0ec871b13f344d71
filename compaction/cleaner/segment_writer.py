"""Writes one segment of a pass anew, from its first change on.

A segment in which nothing changes is not written: what came before its first change is read again.
"""

from collections.abc import Iterator, Sequence
from contextlib import aclosing

from tailrace.compaction.cleaner.cleanable import (
    CleanableLog,
    CleanableSegment,
    SegmentCounts,
    SegmentRewrite,
)
from tailrace.compaction.cleaner.means import PassMeans
from tailrace.compaction.cleaner.outcome import Left, PassProgress, SegmentOutcome
from tailrace.core.errors import CorruptData, LogTruncated
from tailrace.protocol.ids import Buffer, Offset
from tailrace.protocol.records.batch import read_header

STEPS = 8
"""As many parts of a block are written, between two looks at how fast that may be."""


class SegmentWriter:
    """Writes one segment, from its first change on."""

    def __init__(
        self,
        log: CleanableLog,
        segment: CleanableSegment,
        means: PassMeans,
        progress: PassProgress,
    ) -> None:
        self._log, self._segment, self._means, self._progress = log, segment, means, progress
        self._lssn = segment.lssn
        self._rewrite: SegmentRewrite | None = None
        self._verbatim = 0  # batches that came so far, none of them changed
        self._changed_from = segment.base_offset  # behind the last of them

    async def take(self, source: Sequence[Buffer], left: Left) -> None:
        """Take what stays of a block."""
        if self._rewrite is None:
            if left.is_all_of(source):
                self._verbatim += len(source)
                if source:
                    self._changed_from = read_header(source[-1]).last_offset + 1
                return
            self._rewrite = await self._log.rewrite([self._lssn])
            await self._copy(self._rewrite)
        await self._append(self._rewrite, left.batches(source))

    async def finish(self, outcome: SegmentOutcome) -> None:
        """Complete the segment and swap it in, if anything of it changed."""
        if self._rewrite is None:
            return
        keys = -1 if outcome.keys is None else outcome.keys
        await self._rewrite.finish(self._lssn, SegmentCounts(outcome.tombstones, keys))
        await self._rewrite.commit()
        self._rewrite = None

    async def abort(self) -> None:
        """Give up what was not finished. Idempotent."""
        if self._rewrite is not None:
            await self._rewrite.abort()

    async def _copy(self, rewrite: SegmentRewrite) -> None:
        """Copy what was passed over before the first change."""
        if not self._verbatim:
            return
        count = 0
        async with aclosing(self._log.read(self._lssn, self._means.block_bytes)) as parts:
            async for part in parts:
                before = [each for each in part.batches if _base_offset(each) < self._changed_from]
                await self._append(rewrite, before)
                count += len(before)
                if len(before) < len(part.batches) or count == self._verbatim:
                    break
        if count == self._verbatim:
            return
        what = f"{self._log.name}: segment {self._lssn} had {self._verbatim} batches before its"
        if self._segment.base_offset < self._log.log_start_offset:
            raise LogTruncated(f"{what} first change, {count} now: the log begins behind them")
        raise CorruptData(f"{what} first change, {count} now; it is read anew when the log is run")

    async def _append(self, rewrite: SegmentRewrite, batches: Sequence[Buffer]) -> None:
        for step in _steps(batches, self._means.block_bytes() // STEPS):
            size = sum(map(len, step))
            await self._means.throttle(size)
            await rewrite.append(self._lssn, step)
            self._progress.bytes_written += size


def _steps(batches: Sequence[Buffer], size_bytes: int) -> Iterator[Sequence[Buffer]]:
    """Cut a block into pieces of about `size_bytes`, at least a batch each."""
    first = size = 0
    for at, batch in enumerate(batches, 1):
        size += len(batch)
        if size >= size_bytes or at == len(batches):
            yield batches[first:at]
            first, size = at, 0


def _base_offset(batch: Buffer) -> Offset:
    return int.from_bytes(bytes(batch[:8]), "big")
