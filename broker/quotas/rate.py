"""How fast a client goes, and how long it has to wait: Kafka's own arithmetic. Pure.

A rate is a sum over a few short windows divided by the time that they span; one that is over its
bound is brought back by waiting. A token bucket fills at the rate of its bound and may be overdrawn
once. Time is given in, never asked for; it may stand still but not go back.
Source: org.apache.kafka.common.metrics.stats.{SampledStat, Rate, TokenBucket},
org.apache.kafka.server.quota.QuotaUtils.
"""

import math
from collections import deque
from typing import Final, NamedTuple

WAIT_MS_MAX: Final = (1 << 31) - 1
"""What `throttle_time_ms` can say."""


class Windows(NamedTuple):
    """How many windows are averaged, and how long one is."""

    number: int
    length_ms: int

    @property
    def span_ms(self) -> int:
        """After so long, a window without events is forgotten."""
        return self.number * self.length_ms


class _Sample:
    """The sum of one window."""

    __slots__ = ("last_ms", "start_ms", "value")

    def __init__(self, now_ms: int) -> None:
        self.begin(now_ms)

    def begin(self, now_ms: int) -> None:
        """Be a window without events that begins now."""
        self.start_ms = self.last_ms = now_ms
        self.value = 0.0


class SampledRate:
    """A quantity per second, averaged over windows. Cost: a few comparisons per value."""

    __slots__ = ("_samples", "_windows")

    def __init__(self, windows: Windows) -> None:
        self._windows = windows
        self._samples: deque[_Sample] = deque()

    def record(self, value: float, now_ms: int) -> None:
        """Add a value; a negative one takes back what was added."""
        samples, windows = self._samples, self._windows
        if not samples or now_ms - samples[-1].start_ms >= windows.length_ms:
            samples.append(_Sample(now_ms))
            if len(samples) > windows.number + 1:  # one more: the oldest reaches into the span
                samples.popleft()
        samples[-1].value += value
        samples[-1].last_ms = now_ms

    def span_ms(self, now_ms: int) -> int:
        """Return the time that the rate is taken over: at least all windows but one."""
        self._forget(now_ms)
        elapsed_ms = now_ms - min(sample.start_ms for sample in self._samples)
        length_ms = self._windows.length_ms
        missing = self._windows.number - 1 - elapsed_ms // length_ms
        return max(elapsed_ms + max(missing, 0) * length_ms, 1)

    def per_second(self, now_ms: int) -> float:
        """Return the rate."""
        span_ms = self.span_ms(now_ms)
        return sum(sample.value for sample in self._samples) / (span_ms / 1000)

    def wait_ms(self, bound: float, now_ms: int) -> int:
        """Return how long without new values brings the rate down to `bound`; 0 if it is there."""
        rate = self.per_second(now_ms)
        if rate <= bound:
            return 0
        return _rounded((rate - bound) / bound * self.span_ms(now_ms))

    def _forget(self, now_ms: int) -> None:
        samples = self._samples
        if not samples:
            samples.append(_Sample(now_ms))
        for sample in samples:  # kept, though empty: it begins a span, and so Kafka does
            if now_ms - sample.last_ms >= self._windows.span_ms:
                sample.begin(now_ms)


class TokenBucket:
    """Credits that come at a steady rate, up to what all windows together bring."""

    __slots__ = ("_tokens", "_updated_ms", "_windows")

    def __init__(self, windows: Windows, bound: float, now_ms: int) -> None:
        """`bound`: credits per second. A new bucket is full."""
        self._windows = windows
        self._tokens = self._burst(bound)
        self._updated_ms = now_ms

    def tokens(self, bound: float, now_ms: int) -> float:
        """Return what is left; below zero it is overdrawn."""
        came = bound * (now_ms - self._updated_ms) / 1000
        self._tokens = min(self._burst(bound), self._tokens + came)
        self._updated_ms = now_ms
        return self._tokens

    def take(self, count: float, bound: float, now_ms: int) -> None:
        """Take credits, more than there are if need be."""
        self._tokens = min(self._burst(bound), self.tokens(bound, now_ms) - count)

    def wait_ms(self, bound: float, now_ms: int) -> int:
        """Return how long it takes until the bucket is not overdrawn any more; 0 if it is not."""
        tokens = self.tokens(bound, now_ms)
        return _rounded(-tokens / bound * 1000) if tokens < 0 else 0

    def _burst(self, bound: float) -> float:
        return self._windows.number * (self._windows.length_ms / 1000) * bound


def _rounded(wait_ms: float) -> int:
    """Round half up, as Java does; what the protocol cannot say is cut."""
    return WAIT_MS_MAX if wait_ms >= WAIT_MS_MAX else math.floor(wait_ms + 0.5)
