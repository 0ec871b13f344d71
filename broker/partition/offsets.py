"""Where the offsets of one log segment lie, and when their records were made: a sparse index.

Pure. One point about every `POINT_BYTES` of batches: first offset from there on, its entry, and
the largest timestamp before it. Offsets and timestamps-so-far only rise, so both are found by
bisection; from the point on, batches are scanned.
"""

from array import array
from bisect import bisect_left, bisect_right
from math import inf
from struct import Struct
from struct import error as struct_error
from typing import NamedTuple

from tailrace.broker.partition.aborted import AbortedIndex
from tailrace.broker.partition.columns import decode_columns, encode_columns
from tailrace.protocol.errors import BadValue, BufferUnderflow
from tailrace.protocol.ids import Buffer, EntryId, LedgerId, Offset

POINT_BYTES = 256 * 1024
"""Distance of points: what a look-up may have to scan beyond one entry."""

NO_TIMESTAMP = -1

NOT_COUNTED = -1

_TOTALS = Struct(">qqqqqqqI")
_COUNTS = Struct(">qqq")
_PLAIN = 7
"""Fields of `Totals` that records without counts have."""


class Totals(NamedTuple):
    """What a segment holds."""

    first_offset: Offset
    """Base offset of its first batch; equal to `next_offset` while there is none."""
    next_offset: Offset
    """One after its last record."""
    batches: int
    records: int
    size_bytes: int
    max_timestamp: int
    """NO_TIMESTAMP while there is none."""
    max_timestamp_offset: Offset
    """Base offset of the first batch that has it."""
    first_timestamp: int = NO_TIMESTAMP
    """The largest of the first batch."""
    tombstones: int = NOT_COUNTED
    """Records without a value. The owner does not look into batches, who cleans them does."""
    keys: int = NOT_COUNTED
    """Distinct keys, where they were counted."""


class SegmentIndex:
    """The sparse index and the totals of one segment; grows while the segment is written."""

    __slots__ = (
        "_before", "_entries", "_offsets", "_since_point", "aborted", "batches", "first_offset",
        "first_timestamp", "keys", "ledger_id", "max_timestamp", "max_timestamp_offset",
        "next_offset", "read_again_s", "records", "size_bytes", "tombstones",
    )  # fmt: skip

    def __init__(self, next_offset: Offset = 0) -> None:
        self.first_offset = next_offset
        self.next_offset = next_offset
        self.batches = 0
        self.records = 0
        self.size_bytes = 0
        self.max_timestamp = NO_TIMESTAMP
        self.max_timestamp_offset = -1
        self.first_timestamp = NO_TIMESTAMP
        self.tombstones = self.keys = NOT_COUNTED
        self.aborted = AbortedIndex()
        """Kept beside the rest, encoded by itself."""
        self.ledger_id = LedgerId(-1)
        """Whose entries the points name; -1: not known. Not encoded: the index lies in it."""
        self.read_again_s = inf
        """When what could not be read of the segment is tried again; inf: all of it is counted."""
        self._offsets = array("q")
        self._entries = array("q")
        self._before = array("q")  # the largest timestamp before each point
        self._since_point = POINT_BYTES

    @property
    def totals(self) -> Totals:
        """What the segment holds by now."""
        return Totals(
            self.first_offset, self.next_offset, self.batches, self.records, self.size_bytes,
            self.max_timestamp, self.max_timestamp_offset,
            self.first_timestamp, self.tombstones, self.keys,
        )  # fmt: skip

    @property
    def memory_bytes(self) -> int:
        """What it takes in memory, about."""
        points, aborted = len(self._offsets), len(self.aborted)
        return 1024 + 24 * points + 32 * aborted

    def add(
        self, base: Offset, last: Offset, entry: EntryId, size: int, timestamp: int, records: int
    ) -> None:
        """Count a batch and its entry; batches come in offset order."""
        if self._since_point >= POINT_BYTES:
            self._offsets.append(base)
            self._entries.append(entry)
            self._before.append(self.max_timestamp)
            self._since_point = 0
        if self.batches == 0:
            self.first_offset = base
            self.first_timestamp = timestamp
        self._since_point += size
        self.batches += 1
        self.records += records
        self.size_bytes += size
        self.next_offset = last + 1
        if timestamp > self.max_timestamp:
            self.max_timestamp = timestamp
            self.max_timestamp_offset = base

    def entry_before(self, offset: Offset) -> EntryId | None:
        """Return an entry from which on a scan meets the batch that holds `offset`.

        None if the segment has no batch, or `offset` lies before its first.
        """
        at = bisect_right(self._offsets, offset) - 1
        return self._entries[at] if at >= 0 else None

    def offset_before(self, timestamp: int) -> Offset | None:
        """Return an offset from which on a scan meets the first batch that reaches `timestamp`.

        None if no batch of the segment does.
        """
        if timestamp > self.max_timestamp or not self._offsets:
            return None
        at = bisect_left(self._before, timestamp) - 1
        return self._offsets[max(at, 0)]

    def encode(self) -> bytes:
        """Return totals and points as bytes."""
        points = encode_columns((self._offsets, self._entries, self._before))
        totals, counts = self.totals[:_PLAIN], self.totals[_PLAIN:]
        return _TOTALS.pack(*totals, len(self._offsets)) + points + _COUNTS.pack(*counts)

    @classmethod
    def decode(
        cls, data: Buffer, at: int = 0, *, has_counts: bool = True
    ) -> tuple["SegmentIndex", int]:
        """Read an `encode()`d index; return it with the place where it ends.

        `has_counts`: an older one has none. Errors: BufferUnderflow, BadLength, BadValue (columns
        that do not rise).
        """
        try:
            *totals, count = _TOTALS.unpack_from(data, at)
        except struct_error:
            raise BufferUnderflow("the bytes end inside a segment's totals") from None
        columns, at = decode_columns(data, at + _TOTALS.size, 3, count)
        index = cls()
        if has_counts:
            try:
                totals += _COUNTS.unpack_from(data, at)
            except struct_error:
                raise BufferUnderflow("the bytes end inside a segment's counts") from None
            at += _COUNTS.size
        index._set_totals(Totals(*totals))
        index._offsets, index._entries, index._before = columns
        if any(list(column) != sorted(column) for column in columns):
            raise BadValue("a segment's index does not rise")
        return index, at

    def _set_totals(self, totals: Totals) -> None:
        self.first_offset, self.next_offset, self.batches, self.records = totals[:4]
        self.size_bytes, self.max_timestamp, self.max_timestamp_offset = totals[4:_PLAIN]
        self.first_timestamp, self.tombstones, self.keys = totals[_PLAIN:]
