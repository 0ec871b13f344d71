"""Time, as a value that can be replaced."""

import time
from typing import Protocol


class Clock(Protocol):
    """Where every component gets its time from."""

    def now_ms(self) -> int:
        """Return wall-clock time. Unit: ms since the epoch; may jump."""

    def monotonic_s(self) -> float:
        """Return a time that never goes back. Unit: seconds since some start."""


class SystemClock:
    """The machine's clock."""

    def now_ms(self) -> int:
        """Return wall-clock time. Unit: ms since the epoch."""
        return time.time_ns() // 1_000_000

    def monotonic_s(self) -> float:
        """Return monotonic time. Unit: seconds."""
        return time.monotonic()


class ManualClock:
    """A clock that stands still until a test moves it."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self._now_ms = now_ms
        self._start_ms = now_ms

    def now_ms(self) -> int:
        """Return the time that was set. Unit: ms."""
        return self._now_ms

    def monotonic_s(self) -> float:
        """Return how far the clock was moved. Unit: seconds."""
        return (self._now_ms - self._start_ms) / 1000

    def advance_ms(self, ms: int) -> None:
        """Move the clock forward."""
        self._now_ms += ms
