"""How large a record may be: by what its log takes, and by the segment that is written just now.

Every ledger takes records of `RECORD_BYTES_MAX`. A larger one needs a ledger on bookies with large
frames (`core/ledger/entry_limit.py`). The limit of a log may rise while it is written, and such
bookies may be missing for a while: then a segment takes less than its log, and a record that is too
large for it waits for no other one, but is refused until one was begun.
"""

from typing import Protocol

from tailrace.core.errors import LogRecordTooLong, NotEnoughBookies
from tailrace.core.log.config import RECORD_BYTES_MAX


class RecordRoom(Protocol):
    """The segments that are written one after the other (`SegmentChain`)."""

    @property
    def lssn(self) -> int:
        """Log segment sequence number of the current segment, or of the one to be started."""

    @property
    def record_bytes_max(self) -> int:
        """The largest record that fits into the segment that the next one is sent to."""

    def want_records(self, bytes_max: int) -> None:
        """Have every ledger from now on take records of this size."""


class RecordSizes:
    """The limits of one writer."""

    __slots__ = ("_at_least", "_room", "bytes_max", "fits_anywhere")

    def __init__(self, room: RecordRoom, bytes_max: int) -> None:
        """`bytes_max`: by the log's settings; `take` may raise it."""
        self._room = room
        self._at_least = bytes_max
        self.take(bytes_max)

    def take(self, bytes_max: int) -> None:
        """Take records of up to `bytes_max`, or of what the log's settings say if that is more."""
        self.bytes_max = max(bytes_max, self._at_least)
        self.fits_anywhere = min(self.bytes_max, RECORD_BYTES_MAX)
        """A record of this size needs no further look."""
        self._room.want_records(self.bytes_max)

    @property
    def is_segment_small(self) -> bool:
        """Whether the segment takes less than its log."""
        return self.bytes_max > self._room.record_bytes_max

    def check(self, length: int) -> None:
        """Refuse a record for which there is no room.

        Errors: LogRecordTooLong; NotEnoughBookies: it fits into a segment that is to be begun.
        """
        if length > self.bytes_max:
            raise LogRecordTooLong(f"{length} bytes, {self.bytes_max} fit")
        here = self._room.record_bytes_max
        if length > here:
            raise NotEnoughBookies(
                f"{length} bytes: the bookies of segment {self._room.lssn} take records of {here};"
                " another segment is to be begun"
            )
