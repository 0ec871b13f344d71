"""Where the latest record of each key lies, and whether it deletes: a key summary that grows. Pure.

24 bytes a key, as in the cleaner; the offset's word also says whether the record has no value. It
doubles as keys come, as long as whoever gives the memory lets it.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np

from tailrace.compaction.cleaner.digests import digest_keys
from tailrace.compaction.cleaner.headers import Choice
from tailrace.compaction.cleaner.key_summary import ABSENT, SLOT_BYTES, KeySummary, Offsets, Words
from tailrace.protocol.ids import Offset

SMALLEST_BYTES: Final = 4096 * SLOT_BYTES
"""What the first keys take."""

Room = Callable[[int], bool]
"""Says whether so many bytes may be used, those in use among them."""


class LatestOffset(NamedTuple):
    """The latest record of a key."""

    offset: Offset
    is_deleted: bool


class LatestOffsets:
    """Keys of one log, put in offset order."""

    def __init__(self, room: Room) -> None:
        """`room` is asked before it grows, and while it copies it holds both sizes."""
        self._room = room
        self._summary = KeySummary(SMALLEST_BYTES)

    @property
    def size_bytes(self) -> int:
        """Memory of all slots."""
        return self._summary.size_bytes

    @property
    def capacity(self) -> int:
        """Keys that fit without growing."""
        return self._summary.capacity

    def put(self, digests: Words, offsets: Offsets, deletes: Choice, first: Offset) -> int:
        """Note the records of keys; offsets rise from put to put. Return how many it took.

        Fewer than were given: there is no room, and the first that it left out has a new key.
        `first`: keys whose latest record lies before it may be forgotten.
        """
        coded = offsets * 2 + deletes
        taken = self._summary.put(digests, coded)
        while taken < len(coded) and self._grow(first):
            taken += self._summary.put(digests[taken:], coded[taken:])
        return taken

    def find(self, key: bytes) -> LatestOffset | None:
        """Return where a key's latest record lies; None if there is none."""
        coded = int(self._summary.find(digest_keys([key]))[0])
        return None if coded == ABSENT else LatestOffset(coded >> 1, bool(coded & 1))

    def live(self, first: Offset) -> int:
        """Count the keys whose latest record has a value and lies at `first` or behind it."""
        _, coded = self._summary.items()
        return int(np.count_nonzero((coded & 1 == 0) & (coded >> 1 >= first)))

    def offsets(self, first: Offset) -> Offsets:
        """Return the offsets of all latest records from `first` on, in order."""
        _, coded = self._summary.items()
        offsets: Offsets = np.sort(coded >> 1)
        return offsets[np.searchsorted(offsets, first) :]

    def _grow(self, first: Offset) -> bool:
        """Make room for more keys: of what lies before `first`, or of twice the memory."""
        old = self._summary
        digests, coded = old.items()
        kept = coded >> 1 >= first
        if np.count_nonzero(kept) <= old.capacity // 2:
            old.clear()
        else:
            size = 2 * old.size_bytes + 2 * SLOT_BYTES
            if not self._room(old.size_bytes + size):
                return False
            self._summary = KeySummary(size)
        self._summary.put(digests[kept], coded[kept])
        return True
