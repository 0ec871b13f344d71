"""A connection that is not read for a while, because its client went over a quota.

The answer that says so has left; requests that came with it wait. Source: KIP-219.
"""

import asyncio
from collections.abc import Callable

from tailrace.broker.quotas.metrics import QuotaMetrics
from tailrace.core.runtime.net import HOLD_THROTTLE, FrameChannel


class Throttle:
    """The wait of one connection. All calls come from the loop."""

    __slots__ = ("_channel", "_loop", "_metrics", "_resume", "_timer")

    def __init__(self, metrics: QuotaMetrics, resume: Callable[[], None]) -> None:
        """`resume` is called when a wait is over."""
        self._metrics = metrics
        self._resume = resume
        self._loop = asyncio.get_running_loop()
        self._channel: FrameChannel | None = None
        self._timer: asyncio.TimerHandle | None = None

    @property
    def is_on(self) -> bool:
        """Whether the client waits."""
        return self._timer is not None

    def extend(self, channel: FrameChannel, wait_ms: int) -> None:
        """Do not read for so long, or as long as before if that is longer."""
        from_s = self._loop.time()
        until_s = from_s + wait_ms / 1000
        if self._timer is None:
            self._metrics.connections_throttled += 1
            channel.hold(HOLD_THROTTLE)
        else:
            from_s = self._timer.when()
            if from_s >= until_s:
                return
            self._timer.cancel()
        self._metrics.throttle_ms_total += round((until_s - from_s) * 1000)
        self._channel = channel
        self._timer = self._loop.call_at(until_s, self._end)

    def cancel(self) -> None:
        """Wait no more: the connection is gone. Idempotent."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self._metrics.connections_throttled -= 1

    def _end(self) -> None:
        channel = self._channel
        self.cancel()
        assert channel is not None, "a wait has its channel"
        channel.release(HOLD_THROTTLE)
        self._resume()
