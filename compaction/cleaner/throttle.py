"""How fast all workers of the cleaner may go together: bytes read and written, over short windows.

Source: org.apache.kafka.storage.internals.utils.Throttler (reference Kafka 9.1, 9.7).
"""

import asyncio
from collections.abc import Callable
from math import inf

WINDOW_S = 0.3
"""As far back as unused time counts: Kafka's window."""
SHORT_WINDOW_S = 0.005
"""Where many small steps are wanted, and no large one that makes up for them: a few timers'."""
LOOK_AGAIN_S = 1.0
"""Longest wait before the rate is asked again: it may be one that a pass would take days at."""

_NOW_S = 1e-6
"""Less is not waited for: what a float leaves of it might never end."""
_TIMER_S = 1e-3
"""What a loop's timers can tell: one that is asked for less ends at once, and is asked again."""


class Throttle:
    """One budget of bytes per second. All calls come from the loop."""

    def __init__(self, rate: Callable[[], float], window_s: float = WINDOW_S) -> None:
        """`rate`: bytes per second, asked each time; `window_s`: as far back as time counts."""
        self._rate = rate
        self._window_s = window_s
        self._spent = 0
        self._within = 0.0
        """How much of all that may be spent was within the rate when it was looked at last."""
        self._looked_s, self._looked_rate = 0.0, inf
        self.slept_s = 0.0
        """All the time that callers were made to wait."""

    async def spend(self, size_bytes: int) -> None:
        """Return once that many more bytes are within the rate. Cancel: they count as spent."""
        rate = self._look()
        self._spent += size_bytes
        wanted = self._spent
        while (wait_s := (wanted - self._within) / rate) > _NOW_S:
            wait_s = min(max(wait_s, _TIMER_S), LOOK_AGAIN_S)
            self.slept_s += wait_s
            await asyncio.sleep(wait_s)
            rate = self._look()

    def _look(self) -> float:
        """Let the time since the last look count, at the rate of then; return the one of now."""
        rate, now_s = self._rate(), asyncio.get_running_loop().time()
        if passed_s := now_s - self._looked_s:  # no time of infinitely much is no number
            self._within += self._looked_rate * passed_s
        self._within = min(self._within, self._spent + rate * self._window_s)
        if rate == inf:
            self._within = max(self._within, self._spent)
        self._looked_s, self._looked_rate = now_s, rate
        return rate
