"""Which owner wrote which offsets: the list behind OffsetForLeaderEpoch and epoch checks.

Pure. An epoch rises with every owner and never falls: it is the number of the log segment that its
owner writes first and how many owners there were, together, because owners that wrote nothing leave
no segment, and in a metadata store that was restored owners may be counted anew. Only owners that
wrote something are in the list.
Source: reference Kafka 5.4; LeaderEpochFileCache.
"""

from bisect import bisect_right
from itertools import pairwise
from struct import Struct
from struct import error as struct_error
from typing import NamedTuple

from tailrace.protocol.errors import BadLength, BadValue, BufferUnderflow
from tailrace.protocol.ids import Buffer, Offset

EPOCHS_MAX = 1000
"""Beyond it the oldest are forgotten; a client that asks for them is told where the list begins."""

_COUNT = Struct(">I")
_ENTRY = Struct(">iq")


class EpochStart(NamedTuple):
    """An owner and the first offset it could write."""

    epoch: int
    start_offset: Offset


class LeaderEpochs:
    """Epochs with their start offsets, both rising strictly."""

    __slots__ = ("_entries",)

    def __init__(self, entries: tuple[EpochStart, ...] = ()) -> None:
        self._entries = list(entries)

    @property
    def entries(self) -> tuple[EpochStart, ...]:
        """What is known, oldest first."""
        return tuple(self._entries)

    @property
    def last(self) -> int:
        """The newest epoch; -1 if there is none."""
        return self._entries[-1].epoch if self._entries else -1

    def begin(self, epoch: int, start_offset: Offset) -> None:
        """Note an owner that starts at `start_offset`; owners that wrote nothing are forgotten."""
        while self._entries and self._entries[-1].start_offset >= start_offset:
            self._entries.pop()
        self._entries.append(EpochStart(epoch, start_offset))
        del self._entries[:-EPOCHS_MAX]

    def end_of(self, epoch: int, log_end_offset: Offset) -> tuple[int, Offset]:
        """Return the largest known epoch that is at most `epoch`, and where it ended.

        Shape: exclusive end. (-1, -1) for -1 and for an epoch that is still to come; an epoch older
        than the list ends where the list begins.
        """
        if not self._entries or epoch == -1 or epoch > self._entries[-1].epoch:
            return -1, -1
        at = bisect_right(self._entries, epoch, key=_epoch) - 1
        if at < 0:
            return epoch, self._entries[0].start_offset
        if at + 1 == len(self._entries):
            return self._entries[at].epoch, log_end_offset
        return self._entries[at].epoch, self._entries[at + 1].start_offset

    def epoch_of(self, offset: Offset) -> int:
        """Return the epoch that wrote `offset`; -1 if that is not known any more."""
        at = bisect_right(self._entries, offset, key=_start) - 1
        return self._entries[at].epoch if at >= 0 else -1

    def forget_before(self, log_start_offset: Offset) -> None:
        """Drop epochs that end at or before `log_start_offset`; the first kept begins there."""
        while len(self._entries) > 1 and self._entries[1].start_offset <= log_start_offset:
            del self._entries[0]
        if self._entries and self._entries[0].start_offset < log_start_offset:
            self._entries[0] = EpochStart(self._entries[0].epoch, log_start_offset)

    def encode(self) -> bytes:
        """Return the list as bytes."""
        return _COUNT.pack(len(self._entries)) + b"".join(_ENTRY.pack(*e) for e in self._entries)

    @classmethod
    def decode(cls, data: Buffer, at: int = 0) -> tuple["LeaderEpochs", int]:
        """Read an `encode()`d list; return it with the place where it ends.

        Errors: BufferUnderflow, BadLength, BadValue (a list that does not rise).
        """
        try:
            (count,) = _COUNT.unpack_from(data, at)
        except struct_error:
            raise BufferUnderflow("the bytes end before the leader epochs") from None
        at += _COUNT.size
        end = at + count * _ENTRY.size
        if end > len(data):
            raise BadLength(f"{count} leader epochs in {len(data) - at} bytes")
        rows = _ENTRY.iter_unpack(memoryview(data)[at:end])
        entries = tuple(EpochStart._make(row) for row in rows)
        for one, next_one in pairwise(entries):
            if one.epoch >= next_one.epoch or one.start_offset >= next_one.start_offset:
                raise BadValue("leader epochs do not rise")
        return cls(entries), end


def _epoch(entry: EpochStart) -> int:
    return entry.epoch


def _start(entry: EpochStart) -> Offset:
    return entry.start_offset
