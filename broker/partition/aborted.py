"""The transactions that were aborted in each log segment, for readers of committed records. Pure.

A transaction stands in the segment that holds its marker, wherever it began; so a look-up begins
in the segment of the range and goes on into later ones until no transaction that is decided there
can reach back into it. Kept as columns: 32 bytes for each. Which segments hold any is part of the
owner's state, so that the others are not asked: a crash takes their index, and most logs have none.
Source: reference Kafka 4.5; TransactionIndex, LocalLog.collectAbortedTransactions.
"""

from array import array
from bisect import bisect_left
from itertools import pairwise
from struct import Struct
from struct import error as struct_error
from typing import Final, NamedTuple

from tailrace.broker.partition.columns import decode_columns, encode_columns
from tailrace.protocol.errors import BadValue, BufferUnderflow
from tailrace.protocol.ids import Buffer, Offset

_HEAD = Struct(">qI")

HOLDERS_KEPT: Final = 1024
"""Segments that are listed; of those before them nothing is known."""
_NOTHING_KNOWN: Final = -1


class AbortedTransaction(NamedTuple):
    """One transaction whose records readers of committed records drop."""

    producer_id: int
    first_offset: Offset
    last_offset: Offset
    """Of its marker."""
    last_stable_offset: Offset
    """As of the marker: what was aborted before it is all there is below."""


class AbortedIndex:
    """Aborted transactions of one segment by the offsets of their markers, which only rise."""

    __slots__ = ("_columns", "stable_end")

    def __init__(self) -> None:
        self._columns = tuple(array("q") for _ in AbortedTransaction._fields)
        self.stable_end: Offset = 0
        """What is decided when the segment ends: offsets up to the first of the oldest transaction
        that is open then, or all of the segment's. 0 while it is written."""

    def __len__(self) -> int:
        return len(self._columns[0])

    def add(self, aborted: AbortedTransaction) -> None:
        """Note a transaction whose marker is now in the log."""
        for column, value in zip(self._columns, aborted, strict=True):
            column.append(value)

    def all(self) -> list[AbortedTransaction]:
        """Return all of them, in the order of their markers."""
        return [AbortedTransaction._make(row) for row in zip(*self._columns, strict=True)]

    def overlapping(self, first: Offset, last: Offset) -> tuple[list[AbortedTransaction], bool]:
        """Return those with records among `first` to `last`, and whether later segments have none.

        Shape: both ends inclusive; nothing in the range is undecided. Cost: a bisection, then what
        was aborted since `first`, until one says that no more can come.
        """
        found = []
        for at in range(bisect_left(self._columns[2], first), len(self)):
            aborted = AbortedTransaction._make(column[at] for column in self._columns)
            if aborted.first_offset <= last:
                found.append(aborted)
            if aborted.last_stable_offset > last:
                return found, True
        return found, self.stable_end > last

    def encode(self) -> bytes:
        """Return it as bytes: the end of what is stable, a count, then the columns."""
        return _HEAD.pack(self.stable_end, len(self)) + encode_columns(self._columns)

    @classmethod
    def decode(cls, data: Buffer, at: int = 0) -> tuple["AbortedIndex", int]:
        """Read an `encode()`d index; return it with the place where it ends.

        Errors: BufferUnderflow, BadLength, BadValue (markers that do not rise).
        """
        index = cls()
        try:
            index.stable_end, count = _HEAD.unpack_from(data, at)
        except struct_error:
            raise BufferUnderflow("the bytes end before the aborted transactions") from None
        columns, at = decode_columns(data, at + _HEAD.size, len(index._columns), count)
        if list(columns[2]) != sorted(columns[2]):
            raise BadValue("the markers of aborted transactions do not rise")
        index._columns = columns
        return index, at


class AbortedHolders:
    """Which segments hold markers of aborted transactions, by their sequence numbers."""

    __slots__ = ("_known_from", "_lssns")

    def __init__(self, known_from: int = 0) -> None:
        """`known_from`: the first segment that would be listed; -1: the next one that begins."""
        self._known_from = known_from
        self._lssns: list[int] = []

    def begin_segment(self, lssn: int) -> None:
        """Hear that what follows is in segment `lssn`, the newest one."""
        if self._known_from == _NOTHING_KNOWN:
            self._known_from = lssn

    def add(self, lssn: int) -> None:
        """Note that a marker is in the newest segment."""
        if not self._lssns or self._lssns[-1] != lssn:
            self._lssns.append(lssn)
        if len(self._lssns) > HOLDERS_KEPT:
            self._known_from = self._lssns.pop(0) + 1

    def since(self, lssn: int) -> list[int] | None:
        """Return those from a segment on, in order; None if that is not known."""
        if not 0 <= self._known_from <= lssn:
            return None
        return self._lssns[bisect_left(self._lssns, lssn) :]

    def may_be_through(self, lssn: int) -> bool:
        """Whether one up to this segment holds a marker, or is not known to hold none."""
        return self._known_from != 0 or bool(self._lssns and self._lssns[0] <= lssn)

    def encode(self) -> bytes:
        """Return it as bytes: from where on it is known, a count, then the segments."""
        return _HEAD.pack(self._known_from, len(self._lssns)) + encode_columns(
            (array("q", self._lssns),)
        )

    @classmethod
    def decode(cls, data: Buffer, at: int) -> tuple["AbortedHolders", int]:
        """Read an `encode()`d list; return it with the place where it ends.

        Errors: BufferUnderflow, BadLength, BadValue (segments that do not rise).
        """
        try:
            known_from, count = _HEAD.unpack_from(data, at)
        except struct_error:
            raise BufferUnderflow("the bytes end before the segments with aborted ones") from None
        (column,), at = decode_columns(data, at + _HEAD.size, 1, count)
        holders = cls(known_from)
        holders._lssns = list(column)
        if any(after <= before for before, after in pairwise(holders._lssns)):
            raise BadValue("the segments with aborted transactions do not rise")
        return holders, at
