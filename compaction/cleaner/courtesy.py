"""How fast to clean beside clients that write: slowly, but never slower than they write. Pure.

What a pass reads and writes goes through the loop, the cores and the disks that answer produces, so
at full speed it makes them wait several times as long. While nobody writes there is no limit; else
there is the floor, or a multiple of what clients write where that is more: a pass reads its head
twice and the rest of the log once and writes what stays, five times the head together where half of
the log is head, and a cleaner that is slower than its clients would never come to an end.
"""

from typing import Final

CATCH_UP: Final = 8
"""Bytes that may be read and written for each that clients wrote."""
SAMPLE_S: Final = 0.25
"""How long written bytes are counted before there is a new rate."""
QUIET_S: Final = 1.0
"""Clients that wrote nothing for so long do not write."""
PATIENT_BYTES: Final = 32_000_000.0
"""Bytes a second that a pass reaches with what is left of the cores by clients who write so little;
where it has to be faster it needs a share of its own, or it might never come to an end."""
UNLIMITED: Final = float("inf")


class Courtesy:
    """The rate that clients leave. Feed it whenever a rate is wanted."""

    def __init__(self) -> None:
        self._counted: int | None = None
        """As far as bytes were seen to be written."""
        self._wrote_s = -UNLIMITED
        self._sample = (0, 0.0)
        """Bytes counted when the sample under way began, and when."""
        self._per_s = 0.0

    def rate(self, written: int, now_s: float, floor: float) -> float:
        """Return how many bytes a second may be read and written now.

        `written`: bytes that clients wrote so far; the first call begins to count. `floor`: what
        is always left to the cleaner, bytes a second.
        """
        if self._counted is None:
            self._counted = written
        if written != self._counted:
            if now_s - self._wrote_s >= QUIET_S:  # the first after a while: nothing is known yet
                self._sample, self._per_s = (self._counted, now_s), 0.0
            self._counted, self._wrote_s = written, now_s
        if now_s - self._wrote_s >= QUIET_S:
            return UNLIMITED
        begun, began_s = self._sample
        if now_s - began_s >= SAMPLE_S:
            self._per_s = (written - begun) / (now_s - began_s)
            self._sample = (written, now_s)
        return max(floor, CATCH_UP * self._per_s)
