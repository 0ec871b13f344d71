"""The driver of a pass over a log that lies in memory, swaps and all."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing

import pytest
from typing_extensions import override

from tailrace.compaction.cleaner.cleanable import (
    AbortedRange,
    CleanableSegment,
    CleanCheckpoint,
    CleanSettings,
    LastSequence,
    SegmentCounts,
    StoredBatches,
)
from tailrace.compaction.cleaner.errors import CleanAborted
from tailrace.compaction.cleaner.key_summary import LOAD_FACTOR, SLOT_BYTES
from tailrace.compaction.cleaner.means import PassMeans
from tailrace.compaction.cleaner.one_pass import Dirty, one_pass
from tailrace.compaction.cleaner.outcome import PassOutcome, PassProgress
from tailrace.core.errors import CorruptData, LogTruncated, Unavailable
from tailrace.protocol.ids import Buffer, LedgerId
from tailrace.protocol.records.batch import read_header
from tests.unit.compaction.cleaner.computing import InlineComputer
from tests.unit.compaction.cleaner.support import FakeLog, keys, last_values

BLOCKS = (2, 3, 1)
"""Batches read at a time, in turn: what is read again need not come in the same parts."""


class MemoryLog:
    """A CleanableLog over a FakeLog; counts what is begun and not ended."""

    name = "topic/0"
    may_clean = True

    def __init__(self, log: FakeLog) -> None:
        self.log = log
        self.rewritten: list[int] = []
        self.counts: dict[int, SegmentCounts] = {}
        self.unfinished = 0
        self.reading = 0
        self.reads = 0
        self.fail_at_commit: int | None = None
        self.log_start_offset = 0
        self.start_at_rewrite = 0
        """Where somebody has the log begin once a segment is about to be rewritten."""

    @property
    def settings(self) -> CleanSettings:
        return CleanSettings(delete_retention_ms=self.log.delete_retention_ms)

    @property
    def last_stable_offset(self) -> int:
        return self.log.last_stable_offset

    async def checkpoint(self) -> CleanCheckpoint:
        return CleanCheckpoint(self.log.first_dirty)

    async def save_checkpoint(self, checkpoint: CleanCheckpoint) -> None:
        self.log.first_dirty = checkpoint.first_dirty_offset

    async def segments(self) -> Sequence[CleanableSegment]:
        ends = [*self.log.bases[1:], self.log.next_offset]
        return [
            CleanableSegment(
                at + 1, base, end, sum(map(len, self.log.segments[at])), -1, -1,
                in_progress=at == len(ends) - 1,
            )
            for at, (base, end) in enumerate(zip(self.log.bases, ends, strict=True))
        ]  # fmt: skip

    async def aborted_between(self, first: int, last: int) -> Sequence[AbortedRange]:
        return [e for e in self.log.aborted if e.first_offset <= last and e.last_offset >= first]

    def last_sequences(self) -> Mapping[int, LastSequence]:
        return self.log.last

    async def read(self, lssn: int, _: Callable[[], int]) -> AsyncGenerator[StoredBatches, None]:
        start = self.log_start_offset
        batches = self.log.segments[lssn - 1]
        batches = [each for each in batches if read_header(each).last_offset >= start]
        self.reading += 1
        block = BLOCKS[self.reads % len(BLOCKS)]
        self.reads += 1
        try:
            for at in range(0, len(batches), block):
                part = batches[at : at + block]
                entries = range(at, at + len(part))
                yield StoredBatches(lssn, LedgerId(100 + lssn), part, entries)
                await asyncio.sleep(0)
        finally:
            self.reading -= 1

    async def rewrite(self, lssns: Sequence[int]) -> "MemoryRewrite":
        self.log_start_offset = max(self.log_start_offset, self.start_at_rewrite)
        return MemoryRewrite(self, lssns)


class MemoryRewrite:
    def __init__(self, log: MemoryLog, lssns: Sequence[int]) -> None:
        self.log = log
        self.new: dict[int, list[bytes]] = {lssn: [] for lssn in lssns}
        log.unfinished += 1

    async def append(self, lssn: int, batches: Sequence[Buffer]) -> None:
        self.new[lssn] += map(bytes, batches)

    async def finish(self, lssn: int, counts: SegmentCounts) -> None:
        self.log.counts[lssn] = counts

    async def commit(self) -> None:
        if self.log.fail_at_commit in self.new:
            raise Unavailable("the metadata store does not answer")
        for lssn, batches in self.new.items():
            self.log.log.segments[lssn - 1] = batches
            self.log.rewritten.append(lssn)
        self.log.unfinished -= 1

    async def abort(self) -> None:
        self.log.unfinished -= 1


def means(throttle: Callable[[int], Awaitable[None]] | None = None) -> PassMeans:
    async def free(_size: int) -> None: ...

    return PassMeans(throttle=throttle or free, now_ms=lambda: 5_000)


def clean(
    log: MemoryLog, slots: int = 101, with_means: PassMeans | None = None,
    progress: PassProgress | None = None,
) -> PassOutcome:  # fmt: skip
    dirty = Dirty(log.log.first_dirty, log.log.bases[log.log.cleanable_segments()])
    compute = InlineComputer(slots * SLOT_BYTES, LOAD_FACTOR)
    return asyncio.run(one_pass(log, compute, dirty, with_means or means(), progress))


def filled() -> FakeLog:
    """Three completed segments: unchanged, late change, all superseded; and an active one."""
    log = FakeLog()
    log.append((b"only", b"1"))
    log.roll()
    for key in (b"p", b"q", b"r", b"s", b"twice"):
        log.append((key, b"1"))
    log.roll()
    log.append((b"gone", b"1"))
    log.roll()
    log.append((b"twice", b"2"), (b"gone", b"2"))
    log.roll()
    log.append((b"only", b"2"))
    return log


def test_only_segments_that_change_are_written() -> None:
    log = MemoryLog(filled())
    progress = PassProgress()
    before = log.log.batches()
    outcome = clean(log, progress=progress)
    assert log.rewritten == [2, 3]
    assert log.log.segments[1] == before[1:5]
    assert log.log.segments[2] == []
    assert keys(log.log) == [b"only", b"p", b"q", b"r", b"s", b"twice", b"gone", b"only"]
    assert (outcome.next_dirty, outcome.keys, outcome.is_partial) == (9, 7, False)
    assert outcome.bytes_written == sum(map(len, before[1:5])) == progress.bytes_written
    assert progress.bytes_read == progress.bytes_total
    assert progress.bytes_read == outcome.bytes_indexed + outcome.bytes_filtered
    assert (progress.segments_done, progress.segments_total) == (4, 4)
    assert log.counts == {2: SegmentCounts(0, 4), 3: SegmentCounts(0, 0)}
    assert (log.unfinished, log.reading) == (0, 0)


def test_a_second_pass_over_a_clean_log_writes_nothing() -> None:
    log = MemoryLog(filled())
    log.log.first_dirty = clean(log).next_dirty
    log.rewritten.clear()
    outcome = clean(log)
    assert (log.rewritten, outcome.bytes_written, outcome.keys) == ([], 0, 0)


def test_a_full_summary_ends_the_pass_early_and_the_next_goes_on() -> None:
    log = MemoryLog(filled())
    first = clean(log, slots=5)
    assert (first.is_partial, first.keys, first.next_dirty, log.reading) == (True, 4, 4, 0)
    for _ in range(5):
        log.log.first_dirty = clean(log, slots=5).next_dirty
    assert log.log.first_dirty == 9
    assert keys(log.log) == [b"only", b"p", b"q", b"r", b"s", b"twice", b"gone", b"only"]


def test_a_corrupt_batch_is_told_with_its_place() -> None:
    log = MemoryLog(filled())
    broken = bytearray(log.log.segments[1][3])
    broken[-1] ^= 1
    log.log.segments[1][3] = bytes(broken)
    before = log.log.batches()
    with pytest.raises(
        CorruptData, match=r"topic/0: segment 2, ledger 102, entry 3: batch at offset 4"
    ):
        clean(log)
    assert log.log.batches() == before
    assert (log.unfinished, log.reading) == (0, 0)


def test_a_clean_that_is_given_up_leaves_the_log_unchanged() -> None:
    log = MemoryLog(filled())
    before = log.log.batches()
    spent = []

    async def throttle(size: int) -> None:
        spent.append(size)
        log.may_clean = len(spent) < 10  # in the second walk, over a segment that changes

    with pytest.raises(CleanAborted, match="topic/0"):
        clean(log, with_means=means(throttle))
    assert log.log.batches() == before
    assert (log.unfinished, log.reading) == (0, 0)


def test_a_swap_that_fails_deletes_what_was_written_and_keeps_earlier_ones() -> None:
    log = MemoryLog(filled())
    log.fail_at_commit = 3
    with pytest.raises(Unavailable):
        clean(log)
    assert log.rewritten == [2]
    assert (log.unfinished, log.reading) == (0, 0)
    log.fail_at_commit = None
    clean(log)
    assert last_values(log.log.read())[b"twice"] == b"2"
    assert log.log.segments[2] == []


class WatchedLog(MemoryLog):
    """Tells which segments were swapped in when the second walk began to read each."""

    def __init__(self, log: FakeLog, unreadable: int = 0) -> None:
        super().__init__(log)
        self.unreadable = unreadable
        self.swapped_at: dict[int, list[int]] = {}
        self._walked: set[int] = set()

    @override
    async def read(
        self, lssn: int, block_bytes: Callable[[], int]
    ) -> AsyncGenerator[StoredBatches, None]:
        if lssn in self._walked:
            self.swapped_at.setdefault(lssn, list(self.rewritten))
            if lssn == self.unreadable:
                raise Unavailable("no bookie has it now")
        self._walked.add(lssn)
        async with aclosing(super().read(lssn, block_bytes)) as parts:
            async for part in parts:
                yield part


def test_a_segment_is_read_before_the_one_before_is_swapped_in() -> None:
    log = WatchedLog(filled())
    clean(log)
    assert log.swapped_at[3] == []
    assert log.rewritten == [2, 3]


def test_what_cannot_be_read_costs_no_segment_before_it() -> None:
    log = WatchedLog(filled(), unreadable=3)
    with pytest.raises(Unavailable):
        clean(log)
    assert log.rewritten == [2]
    assert (log.unfinished, log.reading) == (0, 0)


def test_the_throttle_hears_of_every_byte() -> None:
    log = MemoryLog(filled())
    spent = []

    async def throttle(size: int) -> None:
        spent.append(size)

    progress = PassProgress()
    outcome = clean(log, with_means=means(throttle), progress=progress)
    copied = sum(map(len, log.log.segments[1][:4]))  # read once more, from the first change on
    assert sum(spent) == outcome.bytes_indexed + outcome.bytes_filtered + outcome.bytes_written
    assert copied == progress.bytes_written


def test_nothing_dirty_still_looks_after_horizons() -> None:
    log = MemoryLog(FakeLog(delete_retention_ms=10))
    log.log.append((b"a", None))
    log.log.roll()
    log.log.append((b"b", b"1"))
    log.log.roll()
    log.log.append((b"c", b"1"))
    log.log.first_dirty = clean(log).next_dirty
    assert keys(log.log) == [b"a", b"b", b"c"]
    late = PassMeans(throttle=means().throttle, now_ms=lambda: 5_010)
    clean(log, with_means=late)
    assert keys(log.log) == [b"b", b"c"]


@pytest.mark.parametrize("reads_whole", [0, 1])
def test_a_segment_that_is_not_read_whole_is_not_swapped(reads_whole: int) -> None:
    """`reads_whole`: how often the last segment is read to its end, before it ends early."""

    class Short(MemoryLog):
        left = reads_whole

        async def read(
            self, lssn: int, _: Callable[[], int]
        ) -> AsyncGenerator[StoredBatches, None]:
            batches = self.log.segments[lssn - 1]
            if lssn == 3:
                batches = batches if self.left > 0 else batches[:-1]
                self.left -= 1
            yield StoredBatches(lssn, LedgerId(100 + lssn), batches, range(len(batches)))

    log = Short(filled())
    before = list(map(list, log.log.segments))
    with pytest.raises(CorruptData, match="segment 3 gave"):
        clean(log)
    assert log.log.segments[2:] == before[2:]
    assert log.unfinished == 0


def test_a_segment_that_the_log_begins_within_is_cleaned_from_there_on() -> None:
    log = MemoryLog(filled())
    log.log_start_offset = 3
    outcome = clean(log)
    assert log.rewritten == [2, 3]
    assert keys(log.log) == [b"only", b"r", b"s", b"twice", b"gone", b"only"]
    assert list(outcome.segments) == [2, 3, 4], "what lies before it is to be deleted"


def test_a_log_that_gets_another_start_meanwhile_is_tried_again() -> None:
    log = MemoryLog(filled())
    log.start_at_rewrite = 3
    before = list(map(list, log.log.segments))
    with pytest.raises(LogTruncated, match="4 batches before its first change, 2 now"):
        clean(log)
    assert log.log.segments == before
    log.log.first_dirty = clean(log).next_dirty
    assert keys(log.log) == [b"only", b"r", b"s", b"twice", b"gone", b"only"]
