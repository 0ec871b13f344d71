"""The loop that applies retention to all logs, one after the other.

It owns no log: whoever does hands it `RetainedLog`s each round. A log that fails is logged once per
round and tried again in the next one; the others go on.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from tailrace.compaction.retention import Limits, RetainedSegment, has_work, judge
from tailrace.core.runtime.clock import Clock
from tailrace.core.runtime.forever import Forever
from tailrace.core.runtime.metrics import counter
from tailrace.protocol.ids import Offset

logger = logging.getLogger(__name__)


class RetainedLog(Protocol):
    """A log as retention sees it."""

    @property
    def name(self) -> str:
        """What the log is called in log lines."""

    @property
    def limits(self) -> Limits:
        """What its topic allows now."""

    @property
    def log_start_offset(self) -> Offset:
        """First offset that is kept."""

    @property
    def local_limits(self) -> Limits | None:
        """What the topic allows on the bookies; None if it is not in cold storage as well."""

    async def segments_for_retention(self) -> Sequence[RetainedSegment]:
        """Return the segments with records, oldest first. Errors: CoreError."""

    async def roll(self) -> None:
        """End the segment in progress. Errors: CoreError."""

    async def delete_segments_before(self, offset: Offset) -> None:
        """Begin the log at `offset` and delete whole segments before it. Errors: CoreError."""

    async def copy_to_cold(self) -> None:
        """Copy completed segments to cold storage. Errors: CoreError."""

    async def release_segments_before(self, offset: Offset) -> None:
        """Take whole segments before `offset` off the bookies, if copied. Errors: CoreError."""

    async def delete_purged(self) -> None:
        """Delete for good what earlier rounds gave up long enough ago. Errors: CoreError."""

    def expire_producers(self, now_ms: int) -> int:
        """Forget producers that were silent for too long; return how many."""


@dataclass(slots=True)
class RetentionMetrics:
    """What retention did."""

    rounds_total: int = counter("rounds over all logs")
    logs_trimmed_total: int = counter("logs that had something removed")
    failures_total: int = counter("logs that could not be looked at or trimmed")
    producers_expired_total: int = counter("idempotent producers forgotten")


class RetentionWorker:
    """Applies retention, every `interval_ms`."""

    def __init__(
        self, logs: Callable[[], AsyncIterator[RetainedLog]], clock: Clock, interval_ms: int
    ) -> None:
        self.metrics = RetentionMetrics()
        self._logs = logs
        self._clock = clock
        self._interval_s = interval_ms / 1000
        self._forever = Forever("retention.round")

    async def run(self) -> None:
        """Work until cancelled. Cancel: a log may keep segments that the next round deletes."""
        await self._forever.run(self._round_later)

    async def _round_later(self) -> None:
        await asyncio.sleep(self._interval_s)
        await self.round()

    async def round(self) -> None:
        """Look at every log once; what fails costs that log its turn. Errors: none of a log's."""
        async for log in self._logs():
            with self._forever.item(log.name) as item:
                await self._apply(log)
            self.metrics.failures_total += item.has_failed
        self.metrics.rounds_total += 1

    async def _apply(self, log: RetainedLog) -> None:
        now_ms = self._clock.now_ms()
        self.metrics.producers_expired_total += log.expire_producers(now_ms)
        segments = await log.segments_for_retention()
        verdict = judge(segments, log.limits, log.log_start_offset, now_ms)
        if verdict.roll_first:
            await log.roll()
        if has_work(segments, verdict, log.log_start_offset):
            self.metrics.logs_trimmed_total += verdict.log_start > log.log_start_offset
            await log.delete_segments_before(verdict.log_start)
        await log.delete_purged()
        local = log.local_limits
        if local is not None:
            await log.copy_to_cold()
            kept = judge(segments, local, verdict.log_start, now_ms)
            await log.release_segments_before(kept.log_start)
