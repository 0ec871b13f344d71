"""Whether a reader waits suspiciously long for an entry.

A reader is idle from the first read that found nothing until an entry comes, a control record's
too: an owner can keep its readers from failing by writing those. Values only.
Source: reference DistributedLog 7.6; BKAsyncLogReader's idle task.
"""

from enum import Enum

NEVER_MS = 2**31 - 1
"""DistributedLog's default of readerIdleErrorThresholdMillis."""


class Silence(Enum):
    """What to do about it."""

    NORMAL = "wait on"
    LOOK_AGAIN = "a notification may have been lost"
    TOO_LONG = "give up"


class Idleness:
    """The silence of one reader. Times are the caller's, in seconds."""

    __slots__ = ("_error_ms", "_look_at_s", "_since_s", "_warn_ms")

    def __init__(self, warn_ms: int, error_ms: int) -> None:
        self._warn_ms = warn_ms
        self._error_ms = error_ms
        self._since_s: float | None = None
        self._look_at_s = 0.0

    def on_entry(self) -> None:
        """Begin anew: an entry came."""
        self._since_s = None

    def on_nothing(self, now_s: float) -> Silence:
        """Count a read that found nothing. LOOK_AGAIN comes once per time that the warning has."""
        if self._since_s is None:
            self._since_s = now_s
            self._look_at_s = now_s + self._warn_ms / 1000
        if self._error_ms < NEVER_MS and now_s - self._since_s >= self._error_ms / 1000:
            return Silence.TOO_LONG
        if now_s >= self._look_at_s:
            self._look_at_s = now_s + self._warn_ms / 1000
            return Silence.LOOK_AGAIN
        return Silence.NORMAL

    def left_s(self, now_s: float) -> float | None:
        """Return how long to wait at most before the next read; None: as long as it takes."""
        if self._since_s is None or self._error_ms >= NEVER_MS:
            return None
        return max(0.0, self._since_s + self._error_ms / 1000 - now_s)
