"""What became of a segment, and of a pass. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

from tailrace.protocol.ids import Buffer, Offset

Stays: TypeAlias = Buffer | int
"""A new batch, or the place of one that stays as it is among those that were given."""


NEW: Final = -1
"""The place of a batch that is not among those that were given."""


class Left(NamedTuple):
    """What stays of a block of batches, in order, as it travels between processes."""

    places: list[int]
    """Of each batch where it is among those that were given, rising; NEW: the next of `new`."""
    new: Sequence[Buffer]

    def is_all_of(self, source: Sequence[Buffer]) -> bool:
        """Whether the block stays as it is."""
        return not self.new and len(self.places) == len(source)

    def batches(self, source: Sequence[Buffer]) -> list[Buffer]:
        """Return the batches; `source`: those that were given."""
        new = iter(self.new)
        return [next(new) if place == NEW else source[place] for place in self.places]


@dataclass(slots=True)
class SegmentOutcome:
    """Exact counts of one segment, before (`_in`, and what was dropped) and after."""

    batches_in: int = 0
    records_in: int = 0
    """Markers count as records, here and below, as they do in the segment's totals."""
    bytes_in: int = 0
    batches: int = 0
    records: int = 0
    bytes_out: int = 0
    tombstones: int = 0
    """Records with a key and without value."""
    keyed: int = 0
    keys: int | None = None
    """Distinct keys; None if the pass does not cover all of the segment."""
    invalid: int = 0
    """Dropped because they had no key."""
    first_timestamp: int = -1
    """Largest of the first batch; -1: none."""
    max_timestamp: int = -1
    last_offset: Offset = -1
    """Of the last batch that is left."""
    is_changed: bool = False
    """Whether anything differs from the source: if not, it need not be swapped."""


@dataclass(slots=True)
class PassOutcome:
    """What one pass did."""

    first_dirty: Offset
    next_dirty: Offset = 0
    """Where the next pass begins: all before it is clean."""
    is_partial: bool = False
    """Whether the key summary filled before the end of what could be cleaned."""
    keys: int = 0
    """Distinct keys in the head."""
    utilization: float = 0.0
    """Of the key summary."""
    records_indexed: int = 0
    bytes_indexed: int = 0
    segments: dict[int, SegmentOutcome] = field(default_factory=dict)
    """By sequence number."""

    @property
    def bytes_filtered(self) -> int:
        """Read by the second walk."""
        return sum(each.bytes_in for each in self.segments.values())

    @property
    def bytes_written(self) -> int:
        """Of the segments that were swapped."""
        return sum(each.bytes_out for each in self.segments.values() if each.is_changed)

    @property
    def invalid(self) -> int:
        """Records that were dropped because they had no key."""
        return sum(each.invalid for each in self.segments.values())


@dataclass(slots=True)
class PassProgress:
    """How far a pass is; whoever gave it may look at any time."""

    bytes_total: int = 0
    """To be read, by both walks."""
    bytes_read: int = 0
    bytes_written: int = 0
    segments_total: int = 0
    """Of the second walk."""
    segments_done: int = 0
