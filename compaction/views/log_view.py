"""What a log holds by key, as far as it was read: counts by segment, and the latest offsets. Pure.

Latest offsets never change by cleaning, which only removes what they leave out, so they are read
once; who keeps a view sees to it that no delete marker goes before it was read. Counts do: they
belong to a segment's ledger, and one that was written anew is counted by who cleaned it, or read
once more.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tailrace.compaction.cleaner.cleanable import AbortedRange
from tailrace.compaction.views.latest_offsets import LatestOffsets
from tailrace.compaction.views.walk import Walked, Wanted, walk
from tailrace.protocol.ids import Buffer, LedgerId, Offset


class Span(NamedTuple):
    """A segment, from the log start on and as far as it is decided."""

    lssn: int
    ledger_id: LedgerId
    first: Offset
    end: Offset
    told: tuple[int, int] | None
    """Records and delete markers, where its index record says so."""


@dataclass(slots=True)
class SegmentCounts:
    """The records of one span, from its beginning to `end`."""

    ledger_id: LedgerId
    first: Offset
    end: Offset
    records: int = 0
    tombstones: int = 0
    keyless: int = 0


class LogView:
    """One log. Offsets are Kafka's."""

    def __init__(self, latest: LatestOffsets) -> None:
        self.latest = latest
        self.first: Offset = 0
        """The log start: keys before it are none."""
        self.end: Offset = 0
        """Where keys are known to: exclusive."""
        self.is_full = False
        """Whether there was no room for the key of the record at `end`."""
        self._counts: dict[int, SegmentCounts] = {}

    def begin(self, log_start: Offset) -> None:
        """Begin a question: the log may begin later by now, and there may be room again."""
        self.first = log_start
        self.end = max(self.end, log_start)
        self.is_full = False

    def counts(self, span: Span) -> SegmentCounts:
        """Return what is counted of a segment by now."""
        known = self._counts.get(span.lssn)
        if span.told is not None:
            records, tombstones = span.told
            known = SegmentCounts(span.ledger_id, span.first, span.end, records, tombstones)
        elif (
            known is None
            or known.end > span.end
            or (known.ledger_id, known.first) != (span.ledger_id, span.first)
        ):
            known = SegmentCounts(span.ledger_id, span.first, span.first)
        self._counts[span.lssn] = known
        return known

    def forget(self, lssn: int) -> None:
        """Count a segment anew when it is asked for next."""
        self._counts.pop(lssn, None)

    def keep(self, lssns: set[int]) -> None:
        """Forget segments that are gone."""
        for lssn in self._counts.keys() - lssns:
            del self._counts[lssn]

    def keys_from(self, span: Span) -> Offset:
        """Return where in a span keys are not known from: its end if none are wanted."""
        return span.end if self.is_full else min(max(self.end, span.first), span.end)

    def take(
        self,
        span: Span,
        batches: Sequence[Buffer],
        aborted: Sequence[AbortedRange],
        wanted: Wanted,
        next_offset: Offset,
    ) -> None:
        """Take in batches of a segment, behind which it goes on at `next_offset`.

        Errors: CorruptBatch, and then nothing has changed.
        """
        found = walk(batches, aborted, wanted)
        counts = self._counts[span.lssn]
        if found is not None:
            counts.records += found.records
            counts.tombstones += found.tombstones
            counts.keyless += found.keyless
        if wanted.count_from <= counts.end:  # else what lies between is not counted
            counts.end = max(counts.end, next_offset)
        if not self.is_full:
            self._take_keys(found, next_offset)

    def _take_keys(self, found: Walked | None, next_offset: Offset) -> None:
        if found is not None:
            taken = self.latest.put(found.digests, found.offsets, found.deletes, self.first)
            if taken < len(found.offsets):
                self.is_full = True
                self.end = int(found.offsets[taken])
                return
        self.end = max(self.end, next_offset)
