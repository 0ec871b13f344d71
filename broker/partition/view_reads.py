"""Reading a partition for views, segment by segment, so much and no more."""

from bisect import bisect_left
from collections.abc import AsyncIterator, Sequence
from typing import Final

from tailrace.broker.partition.partition_log import PartitionLog
from tailrace.compaction.cleaner.cleanable import AbortedRange
from tailrace.compaction.views.log_view import Span
from tailrace.protocol.ids import Buffer, LedgerId, Offset
from tailrace.protocol.records.batch import read_header

READ_BYTES: Final = 1024 * 1024
"""Read at once."""
QUESTION_BYTES: Final = 256 * 1024 * 1024
"""Read for one question, about two seconds; the rest is for further ones."""


class Allowance:
    """What one question may still read. Unit: bytes; the last read may exceed it."""

    def __init__(self, size_bytes: int = QUESTION_BYTES) -> None:
        self.left_bytes = size_bytes
        self.read_bytes = 0

    def spend(self, size_bytes: int) -> None:
        """Take away what was read."""
        self.left_bytes -= size_bytes
        self.read_bytes += size_bytes


class SegmentReads:
    """Reads one partition forward; batches behind a segment's end are kept for the next one."""

    def __init__(self, log: PartitionLog, allowance: Allowance) -> None:
        self._log = log
        self._allowance = allowance
        self._ahead: Sequence[Buffer] = ()
        self._ahead_at: Offset = -1  # where the log goes on with what is ahead

    @property
    def name(self) -> str:
        """The partition's."""
        return str(self._log.partition)

    @property
    def is_over(self) -> bool:
        """Whether the question may read no more."""
        return self._allowance.left_bytes <= 0 and not self._ahead

    def ledger_of(self, lssn: int) -> LedgerId | None:
        """Return where a segment lies now; None if it is gone."""
        segment = self._log.log.segments.find(lssn)
        return None if segment is None else segment.ledger_id

    async def batches(self, at: Offset, end: Offset) -> tuple[Sequence[Buffer], Offset]:
        """Return whole batches with offsets from `at` on and before `end`, and where to go on.

        That is `end` when no batch before it is left. Errors: CoreError.
        """
        if not self._ahead or self._ahead_at != at:
            start = self._log.log_start_offset  # it may have risen
            self._ahead = await self._log.read(max(at, start), READ_BYTES)
            self._allowance.spend(sum(map(len, self._ahead)))
        bases = [read_header(batch).base_offset for batch in self._ahead]
        count = bisect_left(bases, end)
        taken, self._ahead = self._ahead[:count], self._ahead[count:]
        next_offset = read_header(taken[-1]).last_offset + 1 if taken else end
        self._ahead_at = end if self._ahead else next_offset
        return taken, self._ahead_at

    async def aborted(self, first: Offset, next_offset: Offset) -> Sequence[AbortedRange]:
        """Return the aborted transactions with records in a range. Errors: CoreError."""
        found = await self._log.aborted_between(first, next_offset - 1)
        return [AbortedRange(*each[:3]) for each in found]


async def spans_of(log: PartitionLog) -> AsyncIterator[Span]:
    """Yield the segments that are not empty, from log start to last stable offset, in order.

    Errors: CoreError.
    """
    start, stable = log.log_start_offset, log.last_stable_offset
    base: Offset | None = None
    async for lssn, totals in log.segments.all_totals():
        segment = log.log.segments.find(lssn)
        if base is None:
            base = min(totals.first_offset, totals.next_offset)
        first, end = max(base, start), min(totals.next_offset, stable)
        is_told = totals.keys >= 0 and first == base and end == totals.next_offset
        base = totals.next_offset
        if segment is not None and first < end:
            # Of a cleaned segment every record has a key, and is its only one there.
            told = (totals.keys, totals.tombstones) if is_told else None
            yield Span(lssn, segment.ledger_id, first, end, told)
