"""When checkpoints happen and what they cover. The loop decides; a thread of its own writes.

A checkpoint follows `flush_entry_log_bytes` of entries, a roll of the entry log, or, with anything
unsaved, `flush_interval_ms`. One runs at a time. It covers exactly the groups that were done when
it was planned, so its marks never pass what the index files say.
"""

import asyncio
import functools
from collections.abc import Callable

from bookie.checkpoint import Checkpointer, CheckpointPlan, LogToSeal
from bookie.config import BookieConfig
from bookie.group_commit import CommittedGroup
from bookie.ledger_state import LedgerState, LocationTable
from bookie.marks import Mark
from bookie.metrics import BookieMetrics
from bookie.recovery import Recovered
from core.runtime.threads import JobThread
from protocol.ids import LedgerId


class Upkeep:
    """Plans checkpoints over the ledgers of a Storage."""

    def __init__(
        self,
        config: BookieConfig,
        checkpointer: Checkpointer,
        failed: Callable[[Exception], None],
        metrics: BookieMetrics,
    ) -> None:
        self._config = config
        self._checkpointer = checkpointer
        self._failed = failed
        self._metrics = metrics
        self._loop = asyncio.get_running_loop()
        self.thread = JobThread("bookie-upkeep", failed)
        self.ledgers: dict[LedgerId, LedgerState] = {}
        self.dirty: set[LedgerState] = set()
        """Ledgers with something that their index file lacks."""
        self.generation = 0
        """Number of checkpoints that are complete; see LedgerState.generation."""
        self._seals: list[LogToSeal] = []
        self._is_usage_known = True
        self._entry_log_mark = Mark()
        self._journal_mark = Mark()
        self._marked = (Mark(-1), Mark(-1))
        """What the marks on disk say; at first unknown."""
        self._unsaved_bytes = 0
        self._is_held = True
        self._running: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None

    def start(self, found: Recovered, ledgers: dict[LedgerId, LedgerState]) -> None:
        """Take over what recovery found; `ledgers` are all that are in memory, from now on."""
        self.thread.start()
        self.ledgers = ledgers
        self.dirty = {s for s in found.ledgers.values() if s.unsaved or s.header_unsaved}
        self._seals = found.seals
        self._entry_log_mark = found.entry_log or Mark()
        self._journal_mark = found.journal
        self._is_usage_known = found.entry_log is None
        self._marked = found.marks
        self._unsaved_bytes = found.tail_bytes

    @property
    def active_log(self) -> int:
        """Return the id of the entry log that is being written; logs from it on are not sealed."""
        return self._entry_log_mark.file_id

    def note_group(self, group: CommittedGroup) -> None:
        """Count a group that is done, after its entries were put into their ledgers' states."""
        self._journal_mark = group.journal_mark
        self._entry_log_mark = group.entry_log_mark
        self._unsaved_bytes += group.size
        self._consider()

    def note_roll(self) -> None:
        """Remember the log that was left behind. Call before the first entry of the new one."""
        usage = {int(s.ledger_id): s.log_bytes for s in self.ledgers.values() if s.log_bytes}
        for state in self.ledgers.values():
            state.log_bytes = 0
        log_id, end = self._entry_log_mark
        if end:
            self._seals.append(LogToSeal(log_id, end, usage if self._is_usage_known else None))
        self._is_usage_known = True

    def checkpoint(self) -> "asyncio.Future[None]":
        """Start a checkpoint of all that is done; the future is done when it is complete.

        If one is running, the next begins after it. Errors: what `failed` was told.
        """
        done: asyncio.Future[None] = self._loop.create_future()
        if self._running is not None:
            self._running.add_done_callback(lambda _: _chain(self.checkpoint(), done))
            return done
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not self.dirty and not self._seals and self._is_marked():
            done.set_result(None)
            return done
        self._running = done
        saved, plan = self._plan()
        self.thread.submit(
            functools.partial(self._checkpointer.run, plan),
            functools.partial(self._complete, saved, plan, done),
        )
        return done

    def resume(self) -> None:
        """Plan checkpoints by itself from now on.

        Not before all that only the journal has is durable elsewhere: a mark would pass it.
        """
        self._is_held = False
        self._consider()

    def hold(self) -> None:
        """Plan nothing more by itself."""
        self._is_held = True
        if self._timer is not None:
            self._timer.cancel()

    def _consider(self) -> None:
        if self._running is not None or self._is_held:
            return
        if self._seals or self._unsaved_bytes >= self._config.flush_entry_log_bytes:
            _forget(self.checkpoint())
        elif self._timer is None and self.dirty:
            delay_s = self._config.flush_interval_ms / 1000
            self._timer = self._loop.call_later(delay_s, self._checkpoint_now)

    def _checkpoint_now(self) -> None:
        self._timer = None
        _forget(self.checkpoint())

    def _plan(self) -> tuple[list[LedgerState], CheckpointPlan]:
        saved = sorted(self.dirty, key=lambda state: state.ledger_id)
        ledgers = []
        for state in saved:
            state.saving, state.unsaved = state.unsaved, LocationTable()
            state.header_unsaved = False
            ledgers.append((state.ledger_id, state.header(), state.saving))
        plan = CheckpointPlan(
            ledgers,
            self._seals,
            self.active_log
            if self._config.journal_write_data and self._entry_log_mark.position
            else None,
            self._entry_log_mark,
            self._journal_mark,
        )
        self.dirty = set()
        self._seals = []
        self._unsaved_bytes = 0
        return saved, plan

    def _is_marked(self) -> bool:
        return self._marked == (self._entry_log_mark, self._journal_mark)

    def _unsynced_log(self) -> int | None:
        """Return the active log if group commits do not sync it (a roll always does)."""
        mark = self._entry_log_mark
        return mark.file_id if self._config.journal_write_data and mark.position else None

    def _complete(
        self,
        saved: list[LedgerState],
        plan: CheckpointPlan,
        done: "asyncio.Future[None]",
        result: Exception | None,
    ) -> None:
        self._running = None
        if result is not None:
            self._failed(result)
            done.set_exception(result)
            return
        self.generation += 1
        self._marked = (plan.entry_log_mark, plan.journal_mark)
        for state in saved:
            state.saving = None
            state.generation = self.generation
        self._metrics.checkpoints_total += 1
        self._metrics.ledgers_open = len(self.ledgers)
        self._drop_clean_ledgers()
        done.set_result(None)
        self._consider()

    def _drop_clean_ledgers(self) -> None:
        excess = len(self.ledgers) - self._config.cached_ledgers_max
        if excess > 0:
            clean = [s for s in self.ledgers.values() if s.is_clean() and s not in self.dirty]
            for state in clean[:excess]:
                del self.ledgers[state.ledger_id]


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
