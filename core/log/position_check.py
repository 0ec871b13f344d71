"""Whether the records of a segment come without a gap, by the positions that they carry.

Positions are 1-based and dense over the user records of a segment; writers that do not count leave
them 0. Source: reference DistributedLog 1.2, 7.6.
"""

from typing import NamedTuple

from tailrace.core.log.entries import EntryRecords
from tailrace.protocol.distributedlog.record import POSITION_MAX


class PositionGap(NamedTuple):
    """Records are missing, or come twice."""

    expected: int
    found: int


class PositionCheck:
    """The records of one segment, from one of them on."""

    __slots__ = ("_last",)

    def __init__(self, *, from_beginning: bool) -> None:
        self._last: int | None = 0 if from_beginning else None
        """Position of the last record; None while it is unknown."""

    def passes(self, records: EntryRecords) -> PositionGap | None:
        """Go on behind an entry's records, unless something is missing: then say what.

        Cost: none per record.
        """
        metadata = records.columns.metadata
        first = metadata[0] >> 16 & POSITION_MAX
        last = records.last_position if records.columns.flags else metadata[-1] >> 16 & POSITION_MAX
        expected = first if self._last is None else self._last + 1
        if first:
            if first != expected:
                return PositionGap(expected, first)
            dense = first - 1 + (records.positions if records.columns.flags else len(metadata))
            if last != dense:
                return PositionGap(dense, last)
        self._last = last if first else None
        return None

    def is_next(self, records: EntryRecords) -> bool:
        """Tell whether an entry's records certainly follow: none is missing between."""
        return self._last is not None and records.first_position == self._last + 1

    def accept(self, records: EntryRecords) -> None:
        """Go on behind an entry's records in spite of a gap."""
        self._last = records.last_position
