"""How fast all workers of the cleaner may go together: bytes read and written, over short windows.

Source: org.apache.kafka.storage.internals.utils.Throttler (reference Kafka 9.1, 9.7).
"""

import asyncio
from collections.abc import Callable

WINDOW_S = 0.3
"""As far back as unused time counts: Kafka's window."""
SHORT_WINDOW_S = 0.005
"""Where many small steps are wanted, and no large one that makes up for them: a few timers'."""


class Throttle:
    """One budget of bytes per second. All calls come from the loop."""

    def __init__(self, rate: Callable[[], float], window_s: float = WINDOW_S) -> None:
        """`rate`: bytes per second, asked each time; `window_s`: as far back as time counts."""
        self._rate = rate
        self._window_s = window_s
        self._spent_until_s = 0.0
        self.slept_s = 0.0
        """All the time that callers were made to wait."""

    async def spend(self, size_bytes: int) -> None:
        """Return once that many more bytes are within the rate. Cancel: they count as spent."""
        now_s = asyncio.get_running_loop().time()
        begin_s = max(self._spent_until_s, now_s - self._window_s)
        self._spent_until_s = begin_s + size_bytes / self._rate()
        wait_s = self._spent_until_s - now_s
        if wait_s > 0:
            self.slept_s += wait_s
            await asyncio.sleep(wait_s)
