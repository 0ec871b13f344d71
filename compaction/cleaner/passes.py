"""A pass as a worker makes it: look, clean, note what is clean, merge what became small."""

import logging
from typing import Any

from tailrace.compaction.cleaner.cleanable import CleanableLog, CleanCheckpoint
from tailrace.compaction.cleaner.looking import look_at
from tailrace.compaction.cleaner.means import PassMeans
from tailrace.compaction.cleaner.merging import merge_oldest
from tailrace.compaction.cleaner.one_pass import Dirty, one_pass
from tailrace.compaction.cleaner.outcome import PassProgress
from tailrace.compaction.cleaner.run import Compute
from tailrace.core.runtime.clock import Clock

logger = logging.getLogger(__name__)


class Pass:
    """One pass over one log."""

    def __init__(
        self,
        log: CleanableLog,
        clock: Clock,
        compute: Compute,
        means: PassMeans,
    ) -> None:
        self._log = log
        self._clock = clock
        self._compute = compute
        self._means = means
        self._began_s = clock.monotonic_s()
        self._progress = PassProgress()
        self.utilization = 0.0
        """Of the key summary."""

    @property
    def read_bytes(self) -> int:
        """Read so far, by both walks."""
        return self._progress.bytes_read

    @property
    def written_bytes(self) -> int:
        """Written so far."""
        return self._progress.bytes_written

    @property
    def seconds(self) -> float:
        """How long it took, so far."""
        return self._clock.monotonic_s() - self._began_s

    def describe(self) -> dict[str, Any]:
        """Return how far it is: JSON."""
        progress = self._progress
        return {
            "log": self._log.name,
            "percent": round(100 * progress.bytes_read / max(progress.bytes_total, 1), 1),
            "bytes_total": progress.bytes_total,
            "read_bytes": progress.bytes_read,
            "written_bytes": progress.bytes_written,
            "segments_total": progress.segments_total,
            "segments_done": progress.segments_done,
            "seconds": round(self.seconds, 3),
        }

    async def run(self) -> None:
        """Clean the log as far as the key summary reaches, and note it.

        Errors: CleanAborted, CorruptData, CoreError. Cancel: as a crash.
        """
        log = self._log
        look = await look_at(log, self._clock.now_ms())
        dirty = Dirty(look.first_dirty, look.first_uncleanable)
        outcome = await one_pass(log, self._compute, dirty, self._means, self._progress)
        self.utilization = outcome.utilization
        before = sum(each.bytes_in for each in outcome.segments.values() if each.is_changed)
        done = await log.checkpoint()
        await log.save_checkpoint(
            CleanCheckpoint(
                outcome.next_dirty,
                self._clock.now_ms(),
                done.bytes_before + before,
                done.bytes_after + outcome.bytes_written,
            )
        )
        await merge_oldest(log, self._means, outcome.next_dirty)
        logger.info(
            "log cleaned log=%s dirty=%d next_dirty=%d partial=%s keys=%d indexed=%d "
            "filtered=%d written=%d invalid=%d seconds=%.3f",
            log.name, look.first_dirty, outcome.next_dirty, outcome.is_partial, outcome.keys,
            outcome.bytes_indexed, outcome.bytes_filtered, outcome.bytes_written, outcome.invalid,
            self.seconds,
        )  # fmt: skip
