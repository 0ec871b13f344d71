"""Whether the records of a segment come without a gap, by the positions that they carry.

Positions are 1-based and dense over the user records of a segment; writers that do not count leave
them 0. Source: reference DistributedLog 1.2, 7.6.
"""

from typing import NamedTuple

from core.log.entries import EntryRecords


class PositionGap(NamedTuple):
    """Records are missing, or come twice."""

    expected: int
    found: int


class PositionCheck:
    """The records of one segment, from one of them on."""

    __slots__ = ("last",)

    def __init__(self, *, from_beginning: bool) -> None:
        self.last: int | None = 0 if from_beginning else None
        """Position of the last record; None while it is unknown."""

    def gap(self, records: EntryRecords) -> PositionGap | None:
        """Return what is wrong with the next entry's records. Cost: none per record."""
        first, last = records.first_position, records.last_position
        if not first:
            return None
        if self.last is not None and first != self.last + 1:
            return PositionGap(self.last + 1, first)
        dense = first + records.positions - 1
        return None if last == dense else PositionGap(dense, last)

    def passed(self, records: EntryRecords) -> None:
        """Go on behind an entry."""
        self.last = records.last_position if records.first_position else None
