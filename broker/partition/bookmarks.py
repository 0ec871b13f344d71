"""Where consumers behind the tail cache go on, and whether they come back soon. Pure.

A log reader that stays open reads ahead. That pays for a consumer who is back before others take
the reader's place, and is wasted on the thousand partitions of one poll, of which each is asked for
a little, in turns. So whoever is back within as many reads as readers are kept gets one that stays,
and some who are new and take much at once (`kept_readers.py`); all others leave a bookmark, and
next time read from there what they ask for, no more.
"""

from typing import Final, NamedTuple

from tailrace.core.log.resume import Place
from tailrace.protocol.ids import Offset

MARKS_MAX: Final = 8
"""Bookmarks of one partition; each is 300 bytes."""


class Bookmark(NamedTuple):
    """Where a consumer goes on, and when it left."""

    place: Place
    read_number: int
    """How many reads behind the tail cache there had been, of all partitions."""
    rewrites: int
    """What `Log.rewrites` said then."""
    batch_bytes: int
    """How large the batch is that comes next; 0: nobody knows."""
    batch_last: Offset
    """Its last offset."""

    def is_recent(self, read_number: int, readers_max: int) -> bool:
        """Tell whether a reader that stayed open would still be there."""
        return read_number - self.read_number <= readers_max

    def is_cut_off(self, max_bytes: int, end: Offset, rewrites: int) -> bool:
        """Tell whether the next batch is known to lie below `end` and to be larger."""
        is_there = self.rewrites == rewrites and self.batch_last < end
        return is_there and self.batch_bytes > max_bytes


class Bookmarks:
    """The bookmarks of one partition, by the offset where their consumers go on."""

    __slots__ = ("_marks",)

    def __init__(self) -> None:
        self._marks: dict[Offset, Bookmark] = {}  # the oldest first

    def __len__(self) -> int:
        return len(self._marks)

    def leave(self, offset: Offset, mark: Bookmark) -> None:
        """Keep a bookmark; the oldest goes when there are too many."""
        self._marks.pop(offset, None)
        self._marks[offset] = mark
        if len(self._marks) > MARKS_MAX:
            del self._marks[next(iter(self._marks))]

    def find(self, offset: Offset) -> Bookmark | None:
        """Return the bookmark at an offset, which stays there; None if nobody left one."""
        return self._marks.get(offset)

    def take(self, offset: Offset) -> Bookmark | None:
        """Return the bookmark at an offset, which it is no longer; None if nobody left one."""
        return self._marks.pop(offset, None)
