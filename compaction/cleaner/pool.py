"""The log cleaner: a pool of workers that each take the filthiest log, clean it, and look again.

Invariants: a log has one worker at a time; a log whose pass fails is uncleanable, with the reason,
until somebody asks for it (`run`), and the others go on; a pass that is given up (ownership, topic,
policy, pause) changes nothing but groups that it had swapped in before. CPU work runs in processes
of its own, so that this one serves clients meanwhile.
Source: LogCleaner, LogCleanerManager (reference Kafka 9.3 - 9.6).
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import suppress
from typing import Any, Final, NamedTuple

from tailrace.compaction.cleaner.choosing import Look
from tailrace.compaction.cleaner.cleanable import CleanableLog
from tailrace.compaction.cleaner.computers import (
    Computer,
    Computers,
    ProcessComputer,
    StartComputer,
)
from tailrace.compaction.cleaner.config import CleanerConfig
from tailrace.compaction.cleaner.courtesy import PATIENT_BYTES, UNLIMITED, Courtesy
from tailrace.compaction.cleaner.errors import CleanAborted
from tailrace.compaction.cleaner.looking import look_at
from tailrace.compaction.cleaner.means import BLOCK_BYTES, SMALL_BLOCK_BYTES, PassMeans
from tailrace.compaction.cleaner.metrics import CleanerMetrics, ManagerMetrics
from tailrace.compaction.cleaner.passes import Pass
from tailrace.compaction.cleaner.patience import Patience
from tailrace.compaction.cleaner.states import ALL, LogStates, Uncleanable
from tailrace.compaction.cleaner.throttle import SHORT_WINDOW_S, Throttle
from tailrace.core.errors import CoreError, LogTruncated, OwnershipLost
from tailrace.core.runtime.clock import Clock
from tailrace.core.runtime.forever import Forever
from tailrace.core.runtime.tasks import Tasks

logger = logging.getLogger(__name__)

RETRY_MS_FIRST: Final = 1_000
RETRY_MS_MAX: Final = 60_000
"""After a failure that may pass by itself a log is left alone: each time twice as long, up to this.
The first one is often that a dead owner's lock is there for the rest of its session."""


class _Retry(NamedTuple):
    failures: int
    """In a row."""
    at_ms: int


_AT_ONCE: Final = _Retry(0, 0)


def retry_ms(failures: int) -> int:
    """Return how long a log is left alone after so many failures in a row. Unit: ms."""
    return min(RETRY_MS_FIRST << min(failures - 1, 16), RETRY_MS_MAX)


class CleanerPool:
    """The workers, and what people ask of them. All calls come from the loop."""

    def __init__(
        self,
        logs: Callable[[], AsyncIterator[CleanableLog]],
        clock: Clock,
        config: CleanerConfig,
        start_computer: StartComputer = ProcessComputer,
        written_bytes: Callable[[], int] = lambda: 0,
    ) -> None:
        """Take `logs`: all compacted logs that this process owns, anew each time.

        `written_bytes`: what clients wrote so far, whom the cleaner leaves room.
        """
        self.metrics = CleanerMetrics()
        self.manager_metrics = ManagerMetrics()
        self.states = LogStates()
        self._logs = logs
        self._clock = clock
        self._config = config
        self._throttle = Throttle(lambda: self._config.io_bytes_per_second)
        self._courtesy = Courtesy()
        self._patience = Patience()
        self._written_bytes = written_bytes
        self._yielding = Throttle(self._left_by_clients, SHORT_WINDOW_S)
        self._tasks = Tasks("cleaner", self._on_dead)
        self._looking = Forever("cleaner.look")
        self._computers = Computers(start_computer, clock)
        self._workers: set[int] = set()
        self._passes: dict[str, Pass] = {}
        self._retries: dict[str, _Retry] = {}
        self._looks: dict[str, Look] = {}
        self._last_run_ms = clock.now_ms()
        self._wake = asyncio.Event()
        self._choosing = asyncio.Lock()

    # ------------------------------------------------------------------ life

    def start(self) -> None:
        """Begin to clean, if the config says so."""
        self.use(self._config)

    def use(self, config: CleanerConfig) -> None:
        """Follow the config: rate and backoff at once, the rest from the next pass on."""
        self._config = config
        if not config.enable:
            return
        for number in range(config.threads):
            if number not in self._workers:
                self._workers.add(number)
                self._tasks.start(self._work(number), f"worker {number}")
        self._wake.set()

    async def close(self) -> None:
        """Give up what is being cleaned and end. Idempotent. Errors: none."""
        await self._tasks.close()
        await self._computers.drop()

    async def _work(self, number: int) -> None:
        turns = Forever("cleaner.worker", about=f"number {number}")
        while number < self._config.threads and self._config.enable:
            await turns.until_done(self._take_turn)
        self._workers.discard(number)
        await self._computers.drop()  # whoever goes on takes a new one

    async def _take_turn(self) -> None:
        if self._config.enable and not await self.clean_filthiest():
            await self._computers.drop_idle()
            self._wake.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(self._config.backoff_ms / 1000):
                    await self._wake.wait()

    def _on_dead(self, _error: Exception) -> None:
        self.metrics.dead_thread_count += 1

    # ------------------------------------------------------------------ what people ask

    def run(self, names: Collection[str]) -> None:
        """Clean these logs next, whatever their ratio; uncleanable ones are tried again."""
        self.states.want(set(names))
        for name in names:
            self._retries.pop(name, None)
        self._wake.set()

    def pause(self, names: Collection[str]) -> None:
        """Leave logs alone (none named: all) until `resume`; a pass under way is given up."""
        self.states.paused.update(names or {ALL})

    def resume(self, names: Collection[str]) -> None:
        """Take up logs again (none named: all)."""
        if names:
            self.states.paused.difference_update(names)
        else:
            self.states.paused.clear()
        self._wake.set()

    async def plan(self) -> list[Look]:
        """Look at all logs now; the filthiest first. Errors: none."""
        await self._look()
        return sorted(self._looks.values(), key=lambda look: -look.ratio)

    def status(self) -> dict[str, Any]:
        """Return what runs, what is paused, what is uncleanable and why: JSON."""
        config = self._config
        return {
            "enabled": config.enable,
            "threads": config.threads,
            "paused": sorted(self.states.paused),
            "wanted": sorted(self.states.wanted),
            "cleaning": [each.describe() for _, each in sorted(self._passes.items())],
            "uncleanable": [
                {"log": name, **each._asdict()}
                for name, each in sorted(self.states.uncleanable.items())
            ],
            "passes": self.metrics.passes_total,
            "failures": self.metrics.failures_total,
            "read_bytes": self.metrics.read_bytes_total,
            "written_bytes": self.metrics.written_bytes_total,
            "throttled_seconds": round(self._throttle.slept_s, 3),
            "yielded_seconds": round(self._yielding.slept_s, 3),
        }

    def refresh_metrics(self) -> None:
        """Bring the numbers that change by themselves up to date, before a scrape."""
        manager, now_ms = self.manager_metrics, self._clock.now_ms()
        manager.time_since_last_run_ms = max(now_ms - self._last_run_ms, 0)
        manager.uncleanable_partitions_count = len(self.states.uncleanable)
        manager.uncleanable_bytes = sum(e.size_bytes for e in self.states.uncleanable.values())
        self.metrics.throttled_seconds_total = self._throttle.slept_s
        self.metrics.yielded_seconds_total = self._yielding.slept_s

    # ------------------------------------------------------------------ one log

    async def clean_filthiest(self) -> bool:
        """Clean the log that needs it most; False if none does. Errors: none.

        Cancel: the pass is given up; groups that were swapped in stay.
        """
        async with self._choosing:
            log = await self._choose()
            if log is None:
                return False
            self.states.in_progress.add(log.name)
            self.states.wanted.discard(log.name)
        try:
            await self._clean(log)
        finally:
            self.states.in_progress.discard(log.name)
            self._passes.pop(log.name, None)
        return True

    async def _choose(self) -> CleanableLog | None:
        """Return the log with the highest ratio of head to tail among those that are due."""
        logs = await self._look()
        wanted = self.states.wanted
        due = [
            look
            for look in self._looks.values()
            if self.states.is_free(look.name)
            and self._clock.now_ms() >= self._retries.get(look.name, _AT_ONCE).at_ms
            and (look.is_due or (look.name in wanted and look.cleanable_bytes))
        ]
        for look in self._looks.values():
            if not look.cleanable_bytes and look.name not in self.states.in_progress:
                wanted.discard(look.name)  # the others stay until their turn has come
        if not due:
            return None
        return logs[max(due, key=lambda look: look.ratio).name]

    async def _look(self) -> dict[str, CleanableLog]:
        """Look at all logs. Errors: none: one that cannot be looked at is left out."""
        self._last_run_ms = now_ms = self._clock.now_ms()
        logs: dict[str, CleanableLog] = {}
        looks: dict[str, Look] = {}
        async for log in self._logs():
            with self._looking.item(log.name):
                looks[log.name] = await look_at(log, now_ms)
                logs[log.name] = log
        self._looks = looks
        self.states.keep(logs.keys())
        free = [look for name, look in looks.items() if name not in self.states.uncleanable]
        self.manager_metrics.max_dirty_percent = max((100 * e.ratio for e in free), default=0.0)
        delays = [max(look.delay_ms, 0) / 1000 for look in free]
        self.metrics.max_compaction_delay_secs = max(delays, default=0.0)
        return logs

    async def _clean(self, log: CleanableLog) -> None:
        look, config = self._looks[log.name], self._config
        if not self._passes:
            self._courtesy = Courtesy()  # what clients wrote before all that is cleaned now
        computer: Computer | None = None
        try:
            computer = await self._computers.take(config)
            work = Pass(log, self._clock, computer, self._means(log.name))
            self._passes[log.name] = work
            await work.run()
        except CleanAborted as error:
            self.metrics.given_up_total += 1
            logger.info("clean given up log=%s reason=%s", log.name, error)
        except CoreError as error:
            self._failed(log, look, error)
        except Exception as error:  # our bug: it costs this log, as in Kafka, and no other
            logger.exception("clean failed log=%s", log.name)
            self._set_aside(look, f"internal error {error!r}; see the broker's log")
        else:
            await self._computers.give_back(computer, config)
            computer = None
            self._retries.pop(log.name, None)
            self._note(work)
        finally:
            if computer is not None:  # it may be at work still, for a pass that is over
                await computer.close()

    def _means(self, name: str) -> PassMeans:
        def check() -> None:
            if self.states.is_paused(name):
                raise CleanAborted(f"{name}: paused")

        return PassMeans(
            throttle=self._spend,
            now_ms=self._clock.now_ms,
            block_bytes=self._block_bytes,
            gives_way=self._gives_way,
            gave_way=lambda seconds: self._patience.took(seconds, self._clock.monotonic_s()),
            check=check,
        )

    async def _spend(self, size_bytes: int) -> None:
        """Return once so much more may be read or written."""
        await self._throttle.spend(size_bytes)
        await self._yielding.spend(size_bytes)

    def _block_bytes(self) -> int:
        return BLOCK_BYTES if self._left_by_clients() == UNLIMITED else SMALL_BLOCK_BYTES

    def _gives_way(self) -> bool:
        """Tell whether clients write little: if it is more, a pass needs its share of a core."""
        if not self._patience.lasts(self._clock.monotonic_s()):
            return False
        return self._left_by_clients() <= PATIENT_BYTES

    def _left_by_clients(self) -> float:
        floor = self._config.io_courtesy_bytes_per_second
        return self._courtesy.rate(self._written_bytes(), self._clock.monotonic_s(), floor)

    def _failed(self, log: CleanableLog, look: Look, error: CoreError) -> None:
        now_ms = self._clock.now_ms()
        if not log.may_clean:
            self.metrics.given_up_total += 1
            logger.info("clean given up log=%s error=%r", log.name, error)
            return
        if error.retriable or isinstance(error, OwnershipLost | LogTruncated):
            self.metrics.failures_total += 1
            failures = self._retries.get(log.name, _AT_ONCE).failures + 1
            self._retries[log.name] = _Retry(failures, now_ms + retry_ms(failures))
            logger.warning("clean failed, tried again later log=%s error=%r", log.name, error)
            return
        logger.error("log uncleanable log=%s error=%r", log.name, error)
        self._set_aside(look, str(error))

    def _set_aside(self, look: Look, reason: str) -> None:
        """Leave a log alone until somebody asks for it."""
        self.metrics.failures_total += 1
        now_ms = self._clock.now_ms()
        self.states.uncleanable[look.name] = Uncleanable(reason, now_ms, look.total_bytes)

    def _note(self, work: "Pass") -> None:
        metrics = self.metrics
        metrics.passes_total += 1
        metrics.read_bytes_total += work.read_bytes
        metrics.written_bytes_total += work.written_bytes
        metrics.max_buffer_utilization_percent = 100 * work.utilization
        metrics.max_clean_time_secs = work.seconds
        metrics.cleaner_recopy_percent = 100 * work.written_bytes / max(work.read_bytes, 1)
