"""One pass over a log: its head into the key summary, then the segments without what it supersedes.

The I/O around `building` and `filtering`, which decide. Each segment is swapped in as soon as it
is written, so that the space needed is one segment's. One in which nothing changes is not written:
new ledgers are begun at the first change, and what came before it is read again. Kafka puts small
segments together; here each stays, as Java's readers die on a hole in the sequence numbers.
Blocks are computed where the caller says, as they take milliseconds each; meanwhile the next one is
read and the one before is written.

If it fails or is given up, segments that were swapped in stay so; that is what an earlier end of
the pass would have left, and the next one goes over all of it again.
Source: Cleaner.doClean (reference Kafka 9.4).
"""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from compaction.cleaner.cleanable import (
    CleanableLog,
    CleanableSegment,
    StoredBatches,
)
from compaction.cleaner.errors import CleanAborted, CorruptBatch
from compaction.cleaner.means import PassMeans
from compaction.cleaner.outcome import PassOutcome, PassProgress, SegmentOutcome
from compaction.cleaner.run import Compute
from compaction.cleaner.segment_writer import SegmentWriter
from compaction.cleaner.walks import Walks
from core.errors import CorruptData
from core.runtime.child_process import Pieces
from core.runtime.one_ahead import one_ahead
from protocol.ids import Buffer, Offset

if TYPE_CHECKING:
    from asyncio import Future

T = TypeVar("T")

AHEAD = 3
"""Blocks that are given to be computed before the oldest of them is waited for."""


class Dirty(NamedTuple):
    """The part of a log that a pass is to clean; from `choosing`."""

    first_dirty: Offset
    first_uncleanable: Offset


async def one_pass(
    log: CleanableLog,
    compute: Compute,
    dirty: Dirty,
    means: PassMeans,
    progress: PassProgress | None = None,
) -> PassOutcome:
    """Clean a log as far as the summary reaches; `next_dirty` is the checkpoint to note.

    Errors: CorruptData with offset, ledger and entry; CleanAborted; CoreError. Cancel: as a crash,
    new ledgers of the segment in work are deleted. After either `compute` may be busy still.
    Memory: `AHEAD` blocks and three. Cost: all segments up to its end are read once,
    those of the head twice.
    """
    segments = [each for each in await log.segments() if not each.in_progress]
    segments = [each for each in segments if each.next_offset <= dirty.first_uncleanable]
    segments = [each for each in segments if each.next_offset > log.log_start_offset]
    work = _Pass(log, compute, dirty, means, progress or PassProgress())
    head = [each for each in segments if each.next_offset > dirty.first_dirty]
    size = sum(each.size_bytes for each in (*head, *segments))
    work.progress.bytes_total, work.progress.segments_total = size, len(segments)
    await work.build(head)
    await work.filter(segments)
    return work.outcome


class _Pass:
    def __init__(
        self,
        log: CleanableLog,
        compute: Compute,
        dirty: Dirty,
        means: PassMeans,
        progress: PassProgress,
    ) -> None:
        self._log, self._compute, self._means = log, compute, means
        self.progress = progress
        self.outcome = PassOutcome(dirty.first_dirty, dirty.first_dirty)

    async def build(self, head: Sequence[CleanableSegment]) -> None:
        """Fill the summary with the head."""
        first = self.outcome.first_dirty
        last = head[-1].next_offset - 1 if head else first
        aborted = await self._log.aborted_between(first, last) if head else ()
        keys_max = sum(each.next_offset - max(each.base_offset, first) for each in head)
        await self._compute(Walks.begin, first, aborted, keys_max)
        for segment in head:
            if not await self._build_segment(segment):
                self.outcome.is_partial = True
                break
            await self._compute(Walks.end_head_segment, segment.next_offset)
        built, outcome = await self._compute(Walks.built), self.outcome
        outcome.next_dirty, outcome.keys = built.next_dirty, built.keys
        outcome.utilization = built.utilization
        outcome.records_indexed, outcome.bytes_indexed = built.records, built.bytes_read

    async def _build_segment(self, segment: CleanableSegment) -> bool:
        async with aclosing(self._each(segment, Walks.add)) as blocks:
            async for _, has_room in blocks:
                if not has_room:
                    return False
        return True

    async def filter(self, segments: Sequence[CleanableSegment]) -> None:
        """Write the segments up to the end of the pass anew, where anything changes."""
        covered = [each for each in segments if each.base_offset < self.outcome.next_dirty]
        if not covered:
            return
        last = covered[-1].next_offset - 1
        aborted = await self._log.aborted_between(covered[0].base_offset, last)
        await self._compute(
            Walks.begin_filter,
            self._log.settings.delete_retention_ms,
            self._log.settings.batch_bytes_max,
            self._log.last_sequences(),
            aborted,
        )
        for segment in covered:
            await self._compute(Walks.begin_segment, self._means.now_ms())
            self.outcome.segments[segment.lssn] = await self._filter_segment(segment)
            self.progress.segments_done += 1

    async def _filter_segment(self, segment: CleanableSegment) -> SegmentOutcome:
        writer = SegmentWriter(self._log, segment, self._means, self.progress)
        before = self.progress.bytes_read
        try:
            async with aclosing(self._each(segment, Walks.filter)) as blocks:
                async for part, left in blocks:
                    await writer.take(part.batches, left)
            self._check_whole(segment, self.progress.bytes_read - before)
            outcome = await self._compute(Walks.end_segment, segment.next_offset)
            self._check()
            await writer.finish(outcome)
        finally:
            await writer.abort()
        return outcome

    def _check_whole(self, segment: CleanableSegment, size: int) -> None:
        """Never swap in what was made of a part: a reader that ended early would cost records.

        Of a segment that the log begins within, a reader leaves out what lies before.
        """
        is_cut = segment.base_offset < self._log.log_start_offset
        if size > segment.size_bytes or (size < segment.size_bytes and not is_cut):
            raise CorruptData(
                f"{self._log.name}: segment {segment.lssn} gave {size} bytes of batches where its "
                f"index counts {segment.size_bytes}; it is not cleaned until the two agree"
            )

    async def _read(self, part: StoredBatches) -> None:
        self._check()
        size = sum(map(len, part.batches))
        await self._means.throttle(size)
        self.progress.bytes_read += size

    def _check(self) -> None:
        if not self._log.may_clean:
            raise CleanAborted(f"{self._log.name}: its owner, its policy or the topic went")
        self._means.check()

    async def _each(
        self, segment: CleanableSegment, step: Callable[[Walks, Sequence[Buffer]], T]
    ) -> AsyncGenerator[tuple[StoredBatches, T], None]:
        """Yield a segment's blocks with what the step makes of them, in order.

        Some are computed while the next is read and the one before is used.
        """
        ahead: list[tuple[StoredBatches, Future[T]]] = []
        try:
            source = self._log.read(segment.lssn, self._means.block_bytes)
            async with aclosing(one_ahead(source)) as parts:
                async for part in parts:
                    await self._read(part)
                    ahead.append((part, self._begin(step, Pieces(part.batches))))
                    if len(ahead) > AHEAD:
                        done, result = ahead[0]
                        yield done, await self._told(done, result)
                        del ahead[0]
            for done, result in ahead:
                yield done, await self._told(done, result)
        finally:
            for _, result in ahead:
                if not result.cancel() and not result.cancelled():
                    result.exception()  # nobody is to hear of it any more

    def _begin(
        self, step: Callable[[Walks, Sequence[Buffer]], T], batches: Sequence[Buffer]
    ) -> "Future[T]":
        if not self._means.gives_way():
            return self._compute(step, batches)
        answer = self._compute(Walks.when_idle, step, batches)
        loop = answer.get_loop()
        began_s = loop.time()
        answer.add_done_callback(lambda _: self._means.gave_way(loop.time() - began_s))
        return answer

    async def _told(self, part: StoredBatches, result: "Future[T]") -> T:
        try:
            return await result
        except CorruptBatch as error:
            raise CorruptData(
                f"{self._log.name}: segment {part.lssn}, ledger {part.ledger_id}, entry "
                f"{part.entries[error.index]}: {error}; it is not cleaned until that is mended"
            ) from error
