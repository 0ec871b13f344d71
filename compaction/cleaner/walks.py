"""What a pass computes, block by block: both walks over one log, then those over the next.

It lives where computing is done, as a rule in another process: what goes in and comes out are plain
values, and a batch that stays as it is comes back as its place alone. Pure. What computes brings
numpy, so it is loaded there, by the first pass, and not where a pass is only driven.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeVar, TypeVarTuple

from tailrace.compaction.cleaner.cleanable import AbortedRange, LastSequence
from tailrace.compaction.cleaner.outcome import NEW, Left, SegmentOutcome
from tailrace.core.runtime.child_process import Pieces
from tailrace.core.runtime.idle_thread import IdleThread
from tailrace.protocol.ids import Buffer, Offset

if TYPE_CHECKING:
    from tailrace.compaction.cleaner.building import SummaryBuilder
    from tailrace.compaction.cleaner.filtering import SegmentFilter

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class Built(NamedTuple):
    """What the first walk found."""

    next_dirty: Offset
    keys: int
    utilization: float
    records: int
    bytes_read: int


class Walks:
    """The walks of one worker: `begin`, `add`..., `built`, `begin_filter`, `filter`..."""

    def __init__(self, size_bytes: int, load_factor: float) -> None:
        """Take a key summary of that size. Errors: ValueError."""
        from tailrace.compaction.cleaner.key_summary import KeySummary

        self._summary = KeySummary(size_bytes, load_factor)
        self._idle = IdleThread()
        self._builder: SummaryBuilder
        self._filter: SegmentFilter
        self._is_full = False

    def when_idle(self, step: "Callable[[Walks, *Ts], T]", *arguments: *Ts) -> T:
        """Make a step, but give way to all who want a core meanwhile."""
        return self._idle.call(step, self, *arguments)

    def begin(self, first_dirty: Offset, aborted: Sequence[AbortedRange], keys_max: int) -> None:
        """Begin a pass: forget the one before. Shape: as SummaryBuilder."""
        from tailrace.compaction.cleaner.building import SummaryBuilder

        self._builder = SummaryBuilder(self._summary, first_dirty, aborted, keys_max)
        self._is_full = False

    def add(self, batches: Sequence[Buffer]) -> bool:
        """Take a block of the head; False once the summary is full. Errors: CorruptBatch.

        A block that was on its way by then is not taken: the pass ends before it.
        """
        if not self._is_full:
            self._is_full = not self._builder.add(batches)
        return not self._is_full

    def end_head_segment(self, next_offset: Offset) -> None:
        """Go on to the head's next segment, unless the summary was full before this one's end."""
        if not self._is_full:
            self._builder.end_segment(next_offset)

    def built(self) -> Built:
        """End the first walk."""
        summary, builder = self._summary, self._builder
        return Built(
            summary.latest_offset + 1, len(summary), summary.utilization,
            builder.records, builder.bytes_read,
        )  # fmt: skip

    def begin_filter(
        self,
        delete_retention_ms: int,
        batch_bytes_max: int,
        last_sequences: Mapping[int, LastSequence],
        aborted: Sequence[AbortedRange],
    ) -> None:
        """Begin the second walk. Shape: as FilterRules, SegmentFilter."""
        from tailrace.compaction.cleaner.filtering import FilterRules, SegmentFilter

        rules = FilterRules(
            summary=self._summary,
            delete_retention_ms=delete_retention_ms,
            batch_bytes_max=batch_bytes_max,
            last_sequences=last_sequences,
        )
        self._filter = SegmentFilter(rules, aborted)

    def begin_segment(self, now_ms: int) -> None:
        """Go on to the next segment."""
        self._filter.begin_segment(now_ms)

    def filter(self, batches: Sequence[Buffer]) -> Left:
        """Return what stays of a block. Errors: CorruptBatch."""
        stays = self._filter.filter(batches)
        places = [each if isinstance(each, int) else NEW for each in stays]
        return Left(places, Pieces(each for each in stays if not isinstance(each, int)))

    def end_segment(self, next_offset: Offset) -> SegmentOutcome:
        """Return what became of the segment."""
        return self._filter.end_segment(next_offset)
