"""A clock whose wall time is off by as much as a test wants."""

from tailrace.core.runtime.clock import Clock


class SkewedClock:
    """Another clock, with a jump in its wall time. Monotonic time goes on as it is."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.skew_ms = 0
        """How far it is ahead; behind, if negative. May be changed at any time. Unit: ms."""

    def now_ms(self) -> int:
        """Return wall-clock time with the skew. Unit: ms since the epoch."""
        return self._clock.now_ms() + self.skew_ms

    def monotonic_s(self) -> float:
        """Return monotonic time. Unit: seconds."""
        return self._clock.monotonic_s()
