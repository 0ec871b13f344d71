"""Which records belong in the next segment by their own times, and how long they wait for it.

As in Kafka a segment ends with the first record that was made `segment_ms` or more after its first
one, so that history that is written in a short time lies in segments of its own ages. A record that
is late by no more than a `SLACK`th of that still goes into the old segment while the next ledger is
being made, because records that come as they are made should not wait; a later one waits, for
`HOLD_S` at most: without a ledger or the metadata the old segment goes on.
Source: LogSegment.shouldRoll, timeWaitedForRoll, LogConfig.randomSegmentJitter.
"""

import asyncio
from collections.abc import Callable
from random import Random
from typing import Final

from tailrace.core.log.rolling import RollingPolicy
from tailrace.core.log.waiting_records import NEVER_MS

HOLD_S: Final = 1.0
SLACK: Final = 10


class TimedRoll:
    """The times of one segment after the other, for the writer of a log."""

    __slots__ = (
        "_first_ms",
        "_hold",
        "_is_over",
        "_jitter",
        "_latest_by",
        "_latest_ms",
        "_on_over",
        "_rng",
    )

    def __init__(self, rng: Random, on_over: Callable[[], None]) -> None:
        """`on_over`: is called when records have waited for long enough."""
        self._rng = rng
        self._on_over = on_over
        self._first_ms = -1
        self._jitter = 0.0
        self._latest_by: RollingPolicy | None = None
        self._latest_ms = NEVER_MS  # by that policy
        self._hold: asyncio.TimerHandle | None = None
        self._is_over = False

    @property
    def is_by_records(self) -> bool:
        """Whether the records' times count; else the segment's age by the clock does."""
        return self._first_ms >= 0

    def begin(self, first_ms: int) -> None:
        """Begin a segment. `first_ms`: when its first record was made, -1 if that has no time."""
        self._first_ms = first_ms
        self._jitter = self._rng.random()
        self._latest_by = None
        self.release()

    def taken_off_ms(self, policy: RollingPolicy) -> int:
        """Return the random part of the policy's time that this segment does without."""
        return int(self._jitter * min(policy.jitter_ms, policy.segment_ms))

    def latest_ms(self, policy: RollingPolicy) -> int:
        """Return the largest time of a record with which the segment goes on."""
        if policy is not self._latest_by:
            self._latest_by, self._latest_ms = policy, NEVER_MS
            if self._first_ms >= 0 and policy.segment_ms:
                self._latest_ms = self._first_ms + policy.segment_ms - self.taken_off_ms(policy)
        return self._latest_ms

    def latest_meanwhile_ms(self, policy: RollingPolicy) -> int:
        """Return the same while a roll is under way; what is later waits from now on."""
        if self._is_over:
            return NEVER_MS
        if self._hold is None:
            self._hold = asyncio.get_running_loop().call_later(HOLD_S, self._end_hold)
        return self.latest_ms(policy) + policy.segment_ms // SLACK

    def release(self) -> None:
        """Let nothing wait any more: the roll is over."""
        if self._hold is not None:
            self._hold.cancel()
            self._hold = None
        self._is_over = False

    def _end_hold(self) -> None:
        self._is_over = True
        self._on_over()
