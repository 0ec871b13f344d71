"""When checkpoints happen and what they cover. The loop decides; a thread of its own writes.

A checkpoint follows so many bytes of entries (flushEntrylogBytes, or skipListSizeLimit where they
wait in memory), a roll of the entry log, or, with anything unsaved, `flush_interval_ms`. One runs
at a time. It covers exactly the groups that were done when it was planned, so its marks never pass
what the index files say. One that finds the disk full is tried again as it is until there is room.
"""

import asyncio
import functools
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from tailrace.bookie.add_path import AddPath
from tailrace.bookie.checkpoint import Checkpointer, CheckpointPlan
from tailrace.bookie.config import BookieConfig
from tailrace.bookie.errors import NoRoom, is_no_room
from tailrace.bookie.known_ledgers import KnownLedgers
from tailrace.bookie.ledger_state import LedgerState, LocationTable
from tailrace.bookie.recovery import Recovered
from tailrace.bookie.sorted_flush import Flushed
from tailrace.core.runtime.threads import JobThread

logger = logging.getLogger(__name__)

NO_ROOM_RETRY_S = 5.0
"""Pause before a checkpoint is tried again that found the disk full."""

if TYPE_CHECKING:
    from tailrace.bookie.marks import Mark


class Upkeep:
    """Plans checkpoints over the ledgers of a Storage."""

    def __init__(
        self,
        config: BookieConfig,
        checkpointer: Checkpointer,
        known: KnownLedgers,
        failed: Callable[[Exception], None],
        no_room: Callable[[NoRoom], None],
    ) -> None:
        """`no_room` hears of a disk that is full: until there is room nothing can be covered."""
        self._config = config
        self._checkpointer = checkpointer
        self._known = known
        self._failed = failed
        self._no_room = no_room
        self._loop = asyncio.get_running_loop()
        self._adds: AddPath | None = None
        self.thread = JobThread("bookie-upkeep", failed)
        self.generation = 0
        """Number of checkpoints that are complete; see LedgerState.generation."""
        self._marks: tuple[Mark, ...] = ()
        """What the marks on disk say: entry log, then journals."""
        self._is_held = True
        self._running: asyncio.Future[None] | None = None
        self._stuck: tuple[list[LedgerState], CheckpointPlan] | None = None
        """A checkpoint that found no room; nothing else is planned until it is done."""
        self._failure: Exception | None = None
        """Why no checkpoint may follow: what the failed one left out would be behind the marks."""
        self._timer: asyncio.TimerHandle | None = None

    def start(self, found: Recovered, adds: AddPath) -> None:
        """Take over what recovery found, and plan checkpoints from now on."""
        self.thread.start()
        self._adds = adds
        known = self._known
        known.unsaved |= {s for s in found.ledgers.values() if s.unsaved or s.header_unsaved}
        known.unsaved_bytes = found.tail_bytes
        self._marks = found.marks
        self._is_held = False
        self.consider()

    def consider(self) -> None:
        """Look whether it is time for a checkpoint."""
        is_held = self._is_held or self._failure is not None
        if self._running is not None or is_held or self._adds is None:
            return
        if self._stuck is not None:
            self._plan_retry()
            return
        is_wanted = self._adds.wants_checkpoint()
        if is_wanted or self._known.unsaved_bytes >= self._config.flush_entry_log_bytes:
            _forget(self.checkpoint())
        elif self._timer is None and self._known.unsaved:
            delay_s = self._config.flush_interval_ms / 1000
            self._timer = self._loop.call_later(delay_s, self._checkpoint_now)

    def checkpoint(self) -> "asyncio.Future[None]":
        """Start a checkpoint of all that is done; the future is done when it is complete.

        If one is running, the next begins after it. Errors: what `failed` was told; OSError when
        there is no room: the same is tried again, and what is acknowledged is safe without it.
        """
        done: asyncio.Future[None] = self._loop.create_future()
        if self._running is not None:
            self._running.add_done_callback(lambda _: _chain(self.checkpoint(), done))
            return done
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        assert self._adds is not None, "started before"
        if self._failure is not None:
            done.set_exception(self._failure)
        elif self._stuck is not None:
            retried = self._begin(*self._stuck)
            retried.add_done_callback(lambda _: self._go_on(retried, done))
        elif self._known.unsaved or self._marks != self._adds.marks():
            return self._begin(*self._plan(self._adds))
        else:
            done.set_result(None)
        return done

    def _begin(self, saved: list[LedgerState], plan: CheckpointPlan) -> "asyncio.Future[None]":
        self._running = done = self._loop.create_future()
        self._stuck = None
        self.thread.submit(
            functools.partial(self._checkpointer.run, plan),
            functools.partial(self._complete, saved, plan, done),
        )
        return done

    def _go_on(self, retried: "asyncio.Future[None]", done: "asyncio.Future[None]") -> None:
        """Behind an older plan that was tried again, cover what came since."""
        _chain(self.checkpoint() if retried.exception() is None else retried, done)

    @property
    def marked_log(self) -> int:
        """Return the log of entryLogMark on disk: a recovery needs none before it."""
        return self._marks[0].file_id

    def hold(self) -> None:
        """Plan nothing more by itself."""
        self._is_held = True
        if self._timer is not None:
            self._timer.cancel()

    def _plan_retry(self) -> None:
        if self._timer is None:
            self._timer = self._loop.call_later(NO_ROOM_RETRY_S, self._checkpoint_now)

    def _checkpoint_now(self) -> None:
        self._timer = None
        _forget(self.checkpoint())

    def _plan(self, adds: AddPath) -> tuple[list[LedgerState], CheckpointPlan]:
        known = self._known
        saved = sorted(known.unsaved, key=lambda state: state.ledger_id)
        ledgers = []
        for state in saved:
            state.saving, state.unsaved = state.unsaved, LocationTable()
            state.header_unsaved = False
            ledgers.append((state.ledger_id, state.header(), state.saving))
        known.unsaved = set()
        known.unsaved_bytes = 0
        return saved, CheckpointPlan(ledgers, *adds.begin_checkpoint())

    def _complete(
        self,
        saved: list[LedgerState],
        plan: CheckpointPlan,
        done: "asyncio.Future[None]",
        result: Flushed | Exception,
    ) -> None:
        self._running = None
        if isinstance(result, Exception):
            if is_no_room(result):
                logger.warning("checkpoint_without_room error=%s", result)
                self._stuck = (saved, plan)
                if isinstance(result, NoRoom):
                    self._no_room(result)
                self.consider()
            else:
                self._failure = result
                self._failed(result)
            done.set_exception(result)
            return
        assert self._adds is not None, "started before"
        self.generation += 1
        self._marks = (result.entry_log_mark, *plan.journal_marks)
        for state in saved:
            state.saving = None
            state.generation = self.generation
        self._adds.end_checkpoint(result)
        self._known.metrics.checkpoints_total += 1
        self._known.drop_clean()
        done.set_result(None)
        self.consider()


def _chain(source: "asyncio.Future[None]", target: "asyncio.Future[None]") -> None:
    def settle(_: object) -> None:
        if target.cancelled():
            return
        error = source.exception()
        if error is not None:
            target.set_exception(error)
        else:
            target.set_result(None)

    source.add_done_callback(settle)


def _forget(future: "asyncio.Future[None]") -> None:
    """Mark the future's error as seen: `failed` has it."""
    future.add_done_callback(lambda done: done.exception())
