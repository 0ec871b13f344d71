"""How many records and bytes a second a stream, or the proxy, may take. Pure.

A bucket holds what one second may bring, and fills at that rate. It is taken from while anything is
in it, and may be overdrawn by the one request that empties it: no request is too large to pass, and
what it took too much is waited for. Above a soft limit requests are counted, above a hard one they
are refused. Time is given in; one that went back counts as standing still.
Source: reference DistributedLog 9.2; RequestLimiter, ServiceRequestLimiter, StreamRequestLimiter.
"""

from typing import NamedTuple


class RateLimits(NamedTuple):
    """Limits a second; 0 or less: none."""

    records_soft: int = -1
    records_hard: int = -1
    bytes_soft: int = -1
    bytes_hard: int = -1


class TokenBucket:
    """One limit."""

    __slots__ = ("_filled_s", "_per_second", "_tokens")

    def __init__(self, per_second: int, now_s: float) -> None:
        self._per_second = per_second
        self._tokens = float(per_second)
        self._filled_s = now_s

    def is_empty(self, now_s: float) -> bool:
        """Tell whether the next request has to wait. Unit: seconds of a clock that never goes back.

        A bucket without a limit is never empty.
        """
        if self._per_second <= 0:
            return False
        if now_s > self._filled_s:
            gained = (now_s - self._filled_s) * self._per_second
            self._tokens = min(self._tokens + gained, float(self._per_second))
            self._filled_s = now_s
        return self._tokens <= 0

    def take(self, amount: int) -> None:
        """Take what a request brings; ask `is_empty` first."""
        if self._per_second > 0:
            self._tokens -= amount


class Rates:
    """The four limits of a stream, or of the proxy."""

    __slots__ = ("_hard", "_soft")

    def __init__(self, limits: RateLimits, now_s: float) -> None:
        self._soft = tuple(
            TokenBucket(each, now_s) for each in (limits.records_soft, limits.bytes_soft)
        )
        self._hard = tuple(
            TokenBucket(each, now_s) for each in (limits.records_hard, limits.bytes_hard)
        )

    def is_over(self, now_s: float) -> bool:
        """Tell whether a request is to be refused: a hard limit is used up. Takes nothing."""
        return any(bucket.is_empty(now_s) for bucket in self._hard)

    def take(self, records: int, size_bytes: int, now_s: float) -> bool:
        """Take what a request brings that is served; return whether it is above a soft limit."""
        is_above = False
        for bucket, amount in zip(self._soft, (records, size_bytes), strict=True):
            if bucket.is_empty(now_s):
                is_above = True
            else:
                bucket.take(amount)
        for bucket, amount in zip(self._hard, (records, size_bytes), strict=True):
            bucket.take(amount)
        return is_above
