"""How much a reader asks for at once: what its consumer uses up while the next piece comes.

A consumer that has to wait gets twice as much the next time, one that leaves entries lying about
half as much. Source: seed 000, "adjusting the readahead pace based on the reader state and its
consuming rate"; the state is the LAC, at which reading ahead ends anyway.
"""

from typing import Final

SMALLEST_BYTES: Final = 256 * 1024
LYING_FACTOR: Final = 8
"""Entries that lie for so many times the time that it took to get them came too early."""


class ReadPace:
    """The pace of one reader. Times are the caller's, in seconds."""

    __slots__ = ("_bytes_max", "bytes")

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self.bytes = 0
        """How much to ask for next; 0 before the consumer asked for anything."""

    def on_asked(self, max_bytes: int) -> None:
        """Begin with as much as the consumer asks for."""
        if not self.bytes:
            self.bytes = min(max(max_bytes, SMALLEST_BYTES), self._bytes_max)

    def on_taken(self, *, waited: bool, came_in_s: float, lay_s: float) -> None:
        """Learn from entries that the consumer takes: whether it waited, or how long they lay."""
        if waited:
            self.bytes = min(self.bytes * 2, self._bytes_max)
        elif lay_s > LYING_FACTOR * came_in_s:
            self.bytes = min(max(self.bytes // 2, SMALLEST_BYTES), self._bytes_max)
