"""One pass over a log: its head into the key summary, then the segments without what it supersedes.

The I/O around `building` and `filtering`, which decide. Each segment is swapped in as soon as it
is written, so that the space needed is one segment's. One in which nothing changes is not written:
new ledgers are begun at the first change, and what came before it is read again. Where Kafka puts
small segments together as it writes them, `merging` does it afterwards.
Blocks are computed where the caller says, as they take milliseconds each; meanwhile the next one is
read and the one before is written.

If it fails or is given up, segments that were swapped in stay so; that is what an earlier end of
the pass would have left, and the next one goes over all of it again.
Source: Cleaner.doClean (reference Kafka 9.4).
"""

from asyncio import get_running_loop
from collections import deque
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tailrace.compaction.cleaner.cleanable import (
    CleanableLog,
    CleanableSegment,
    StoredBatches,
)
from tailrace.compaction.cleaner.errors import CleanAborted, CorruptBatch
from tailrace.compaction.cleaner.means import PassMeans
from tailrace.compaction.cleaner.outcome import PassOutcome, PassProgress, SegmentOutcome
from tailrace.compaction.cleaner.run import Compute
from tailrace.compaction.cleaner.segment_writer import SegmentWriter
from tailrace.compaction.cleaner.walks import Walks
from tailrace.core.errors import CoreError, CorruptData
from tailrace.core.runtime.child_process import Pieces
from tailrace.core.runtime.one_ahead import one_ahead
from tailrace.protocol.ids import Buffer, Offset

if TYPE_CHECKING:
    from asyncio import Future

AHEAD: Final = 3
"""Blocks, and ends of segments, that are given to be computed before the oldest is waited for."""


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


class _Walk(NamedTuple):
    """What is computed of each segment, in this order."""

    begin: Callable[[Walks, int], None] | None
    """With the time, before the first block."""
    step: Callable[[Walks, Sequence[Buffer]], Any]
    end: Callable[[Walks, Offset], Any]
    """With the offset behind the segment, after the last block."""


_ADD: Final = _Walk(None, Walks.add, Walks.end_head_segment)
_FILTER: Final = _Walk(Walks.begin_segment, Walks.filter, Walks.end_segment)


class _Asked(NamedTuple):
    """A block that is to be computed, or a segment's end."""

    part: StoredBatches | None
    """None: the end."""
    answer: "Future[Any]"


class _Computed(NamedTuple):
    """What a walk made of a block, or of a segment's end."""

    part: StoredBatches | None
    """The block; None: all of the segment was given out."""
    found: Any


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
        async with aclosing(self._each(head, _ADD)) as blocks:
            async for part, has_room in blocks:
                if part is not None and not has_room:
                    self.outcome.is_partial = True
                    break
        built, outcome = await self._compute(Walks.built), self.outcome
        outcome.next_dirty, outcome.keys = built.next_dirty, built.keys
        outcome.utilization = built.utilization
        outcome.records_indexed, outcome.bytes_indexed = built.records, built.bytes_read

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
        async with aclosing(self._each(covered, _FILTER)) as blocks:
            for segment in covered:
                outcome = await self._filter_segment(segment, blocks)
                self.outcome.segments[segment.lssn] = outcome
                self.progress.segments_done += 1

    async def _filter_segment(
        self, segment: CleanableSegment, blocks: "AsyncGenerator[_Computed, None]"
    ) -> SegmentOutcome:
        """Take a segment's blocks, up to its end, and swap in what stays of it."""
        writer = SegmentWriter(self._log, segment, self._means, self.progress)
        size = 0
        try:
            while (block := await anext(blocks)).part is not None:
                size += sum(map(len, block.part.batches))
                await writer.take(block.part.batches, block.found)
            outcome: SegmentOutcome = block.found
            self._check_whole(segment, size)
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
        self, segments: Sequence[CleanableSegment], walk: "_Walk"
    ) -> "AsyncGenerator[_Computed, None]":
        """Yield the blocks of segments with what a walk makes of them, and their ends, in order.

        Some are computed while the next is read and the one before is used, whosever they are: a
        segment is begun while what is left of the one before is written and swapped in.
        """
        ahead: deque[_Asked] = deque()
        try:
            async with aclosing(self._asked(segments, walk)) as asked:
                async for each in asked:
                    ahead.append(each)
                    if len(ahead) > AHEAD:
                        yield await self._told(ahead[0])
                        ahead.popleft()
            while ahead:
                yield await self._told(ahead[0])
                ahead.popleft()
        finally:
            for each in ahead:
                if not each.answer.cancel():
                    _leave_to_what_follows(each.answer)  # nobody is to hear of it any more

    async def _asked(
        self, segments: Sequence[CleanableSegment], walk: "_Walk"
    ) -> "AsyncGenerator[_Asked, None]":
        """Yield what is asked of a walk, in order. What cannot be read fails in its turn.

        So the segments before it are swapped in first.
        """
        for segment in segments:
            if walk.begin is not None:
                begun = self._compute(walk.begin, self._means.now_ms())
                begun.add_done_callback(_leave_to_what_follows)
            source = self._log.read(segment.lssn, self._means.block_bytes)
            try:
                async with aclosing(one_ahead(source)) as parts:
                    async for part in parts:
                        await self._read(part)
                        yield _Asked(part, self._begin(walk.step, Pieces(part.batches)))
            except CoreError as error:
                yield _Asked(None, _failed(error))
                return
            yield _Asked(None, self._compute(walk.end, segment.next_offset))

    def _begin(
        self, step: Callable[[Walks, Sequence[Buffer]], Any], batches: Sequence[Buffer]
    ) -> "Future[Any]":
        if not self._means.gives_way():
            return self._compute(step, batches)
        answer = self._compute(Walks.when_idle, step, batches)
        loop = answer.get_loop()
        began_s = loop.time()
        answer.add_done_callback(lambda _: self._means.gave_way(loop.time() - began_s))
        return answer

    async def _told(self, asked: "_Asked") -> "_Computed":
        part = asked.part
        try:
            return _Computed(part, await asked.answer)
        except CorruptBatch as error:
            assert part is not None, "no batch is looked at when a segment ends"
            raise CorruptData(
                f"{self._log.name}: segment {part.lssn}, ledger {part.ledger_id}, entry "
                f"{part.entries[error.index]}: {error}; it is not cleaned until that is mended"
            ) from error


def _leave_to_what_follows(result: "Future[Any]") -> None:
    """Have nobody told of an error: where a step fails that cannot, the next ones do as well."""
    if not result.cancelled():
        result.exception()


def _failed(error: CoreError) -> "Future[Any]":
    failed: Future[Any] = get_running_loop().create_future()
    failed.set_exception(error)
    return failed
