"""Takes marked ledgers, one after the other, and sees to it that nothing of them is missing.

    take -> repair -> done                          nothing is missing any more, or it was deleted
                   -> set aside, unlock             something failed: again later, later each time
                   -> wait out the grace period -> look again -> close -> repair

Open ledgers: a writer replaces a lost member by itself when it next adds, and only former fragments
are copied here. If its last fragment still misses a member after the grace period
(`openLedgerRereplicationGracePeriod`) nobody may be there to do it, and each further loss may make
the ledger unreadable. So it is recovered, which fences a writer that lives and is idle, as
BookKeeper's worker does.

A ledger that waits or failed is unlocked, where Java's worker keeps the lock: another worker may
reach what this one does not. Nothing in here holds up another ledger for longer than its copy.
Source: BookKeeper ReplicationWorker.
"""

import asyncio
import logging
from functools import partial
from random import Random
from typing import Final

from tailrace.core.autorecovery.config import AutoRecoveryConfig
from tailrace.core.autorecovery.copying import FragmentCopier, LockLost
from tailrace.core.autorecovery.ledger_check import LedgerCheck
from tailrace.core.autorecovery.ledger_repair import LedgerRepair, OpenEnd, RepairOutcome
from tailrace.core.autorecovery.replication_metrics import ReplicationMetrics
from tailrace.core.autorecovery.set_aside import SetAside
from tailrace.core.autorecovery.underreplicated import TakenLedger, UnderreplicatedLedgers
from tailrace.core.errors import BookieUnavailable, CoreError, LedgerNotFound, MetadataConflict
from tailrace.core.ledger.context import LedgerContext
from tailrace.core.ledger.recover import recover_ledger
from tailrace.core.ledger.schedule import Schedule
from tailrace.core.metadata.ledger_metadata import LedgerMetadata, LedgerState
from tailrace.core.runtime.clock import Clock
from tailrace.core.runtime.forever import Forever
from tailrace.core.runtime.tasks import together

logger = logging.getLogger(__name__)

UNLOCK_S: Final = 2.0
"""How long a worker that is cancelled waits for a lock to go; it goes with the session anyway."""
BUGS_MAX: Final = 10
"""So many failures in a row that are not the store's, and no ledger's, end the process."""
TOLD_EVERY_S: Final = 60.0
"""How often a kind of failure is told, of whichever ledger: one lost bookie may fail 100,000."""
LOOKS: Final = 4
"""How often a ledger is looked at within the grace period, so that who came back is seen."""
RECOVERY_READS: Final = 4
"""Entries that recovery reads at once behind the LAC, to begin with."""


class _WriterLives(MetadataConflict):
    """The last fragment is another one than that which missed a member."""


class ReplicationWorker:
    """One process' worker. It owns nothing that it is given."""

    def __init__(
        self, context: LedgerContext, marks: UnderreplicatedLedgers, config: AutoRecoveryConfig,
        clock: Clock, metrics: ReplicationMetrics, rng: Random,
    ) -> None:  # fmt: skip
        """`rng`: which entries of a replica are looked at."""
        self._context = context
        self._marks = marks
        self._config = config
        self._clock = clock
        self._metrics = metrics
        self._repair = LedgerRepair(
            context,
            marks,
            LedgerCheck(context.nodes, context.bookies, config, rng),
            FragmentCopier(context, config, metrics),
            metrics,
        )
        self._aside = SetAside(config.lock_release_of_failed_ms, config.open_ledger_grace_ms)
        self._trouble = ""
        self._told_s: dict[type[Exception], float] = {}
        """When a kind of failure was told last."""

    async def run(self) -> None:
        """Work until cancelled. Errors: only bugs of our own.

        Cancel: at any point; metadata is the old or the new, and locks are let go if that takes no
        longer than `UNLOCK_S`.
        """
        workers = [
            Forever("replication.worker", ends_after=BUGS_MAX)
            for _ in range(self._config.replication_concurrency)
        ]
        await together([each.run(partial(self._work, each)) for each in workers])

    async def _work(self, worker: Forever) -> None:
        try:
            await self._marks.wait_until_enabled()
            taken = await self._marks.take()
            if taken is None:
                worker.is_well()
                await self._marks.wait_for_work()
            else:
                await self._work_on(taken, worker)
            self._trouble = ""
        except CoreError as error:
            self._on_trouble(error)
            await asyncio.sleep(self._config.replicate_backoff_ms / 1000)

    def _on_trouble(self, error: CoreError) -> None:
        """Tell once that the marks cannot be reached or read."""
        if self._trouble != str(error):
            self._trouble = str(error)
            logger.warning("replication_waits %s: %s", type(error).__name__, error)

    async def _work_on(self, taken: TakenLedger, worker: Forever) -> None:
        """Do what can be done for a ledger now, and unlock it."""
        metrics = self._metrics
        metrics.ledgers_taken_total += 1
        metrics.ledgers_in_hand += 1
        try:
            await self._finish(taken, await self._attempt(taken))
        except LedgerNotFound as error:
            await self._on_not_found(taken, error)
        except LockLost as error:
            metrics.locks_lost_total += 1
            logger.info("ledger_given_up %s", error)
        except CoreError as error:
            self._set_aside(taken, error)
        except Exception as error:  # noqa: BLE001 - noted; a bug costs this ledger its turn only
            worker.failed(f"ledger {taken.ledger_id}", error)
            self._set_aside(taken, error)
        finally:
            metrics.ledgers_in_hand -= 1
            await self._unlock(taken)

    async def _on_not_found(self, taken: TakenLedger, error: LedgerNotFound) -> None:
        """Be done with a ledger that was deleted, not with one of which only bookies know nothing.

        Errors: Unavailable.
        """
        try:
            _ = await self._context.nodes.read(taken.ledger_id)
        except LedgerNotFound:
            self._metrics.ledgers_deleted_total += 1
            await self._done(taken, "deleted")
        except CoreError as problem:
            self._set_aside(taken, problem)
        else:
            self._set_aside(taken, error)

    async def _attempt(self, taken: TakenLedger) -> RepairOutcome:
        outcome = await self._repair.repair(taken)
        if outcome.open_end is None:
            self._aside.on_whole_end(taken.ledger_id)
            return outcome
        if self._grace_ms(taken, outcome.open_end):
            return outcome
        try:
            await self._close(taken, outcome.open_end)
        except _WriterLives as news:
            logger.info("ledger_left_open %s", news)
        return await self._repair.repair(taken)

    def _grace_ms(self, taken: TakenLedger, end: OpenEnd) -> int:
        now_ms = int(self._clock.monotonic_s() * 1000)
        left_ms = self._aside.on_open_end(
            taken.ledger_id, end.fragment, taken.made_ms, end.awaited, now_ms
        )
        return min(left_ms, max(self._config.open_ledger_grace_ms // LOOKS, 1))

    async def _close(self, taken: TakenLedger, end: OpenEnd) -> None:
        """Recover a ledger whose writer did not replace a member that is gone.

        Begun by a commit of its own, on the very fragment that was looked at: a writer that has
        replaced the member since is left alone. So is one while nobody could find out where the
        ledger ends. Who lost entries cannot tell, and recovery is told so: his "no such entry"
        must not be taken for an entry that never was acknowledged.
        """
        ledger_id, last = taken.ledger_id, end.fragment
        stored = await self._context.nodes.read(ledger_id)
        quorums = stored.metadata.write_quorum, stored.metadata.ack_quorum
        if not Schedule(last.ensemble, *quorums).can_cover(end.gone | end.lacking):
            away = f"{', '.join(sorted(end.gone))} not registered" if end.gone else ""
            lost = f"{', '.join(sorted(end.lacking))} lacking entries" if end.lacking else ""
            raise BookieUnavailable(
                f"ledger {ledger_id} is open and cannot be closed, because nobody knows where it"
                f" ends with {' and '.join(filter(None, (away, lost)))}; bring a bookie back, with"
                " its data"
            )

        def decide(current: LedgerMetadata) -> LedgerMetadata | None:
            if not self._marks.is_held(taken):
                raise LockLost(f"the lock of ledger {ledger_id} went with its session")
            if current.fragments[-1] != last and not current.is_closed:
                raise _WriterLives(f"ledger {ledger_id} has a new fragment")
            return current.in_recovery() if current.state is LedgerState.OPEN else None

        begun = await self._context.nodes.update(stored, decide)
        if not begun.metadata.is_closed:
            logger.warning(
                "ledger_closed_for_replication ledger=%d first_entry=%d ensemble=%s",
                ledger_id, last.first_entry_id, ",".join(last.ensemble),
            )  # fmt: skip
            _ = await recover_ledger(begun, self._context, RECOVERY_READS, end.lacking)
            self._metrics.ledgers_closed_total += 1

    async def _finish(self, taken: TakenLedger, outcome: RepairOutcome) -> None:
        end = outcome.open_end
        wait_ms = self._grace_ms(taken, end) if end is not None else None
        if outcome.problem is not None:
            self._set_aside(taken, outcome.problem, wait_ms)
        elif wait_ms is not None:
            logger.info("ledger_waits ledger=%d for_ms=%d", taken.ledger_id, wait_ms)
            self._marks.set_aside(taken.ledger_id, wait_ms / 1000)
        else:
            self._metrics.ledgers_repaired_total += 1
            await self._done(taken, "whole")

    async def _done(self, taken: TakenLedger, why: str) -> None:
        is_done = await self._marks.done(taken)
        self._aside.forget(taken.ledger_id)
        logger.info("ledger_done ledger=%d %s marked_anew=%s", taken.ledger_id, why, not is_done)

    def _set_aside(
        self, taken: TakenLedger, problem: Exception, wait_ms: int | None = None
    ) -> None:
        """Leave a ledger alone for a while; tell what is wrong once, not many of a kind at a time.

        `wait_ms`: when there is something else to do for it, if there is.
        """
        self._metrics.ledgers_failed_total += 1
        pause_ms, is_new = self._aside.on_failure(taken.ledger_id, str(problem))
        if wait_ms:
            pause_ms = min(pause_ms, wait_ms)
        tells = is_new and self._may_tell(type(problem))
        if is_new and not tells:
            self._aside.on_untold(taken.ledger_id)
        level = logging.WARNING if tells else logging.DEBUG
        logger.log(
            level, "ledger_not_repaired ledger=%d retry_ms=%d %s: %s",
            taken.ledger_id, pause_ms, type(problem).__name__, problem,
        )  # fmt: skip
        self._marks.set_aside(taken.ledger_id, pause_ms / 1000)

    def _may_tell(self, kind: type[Exception]) -> bool:
        now_s = self._clock.monotonic_s()
        if now_s - self._told_s.get(kind, -TOLD_EVERY_S) < TOLD_EVERY_S:
            return False
        self._told_s[kind] = now_s
        return True

    async def _unlock(self, taken: TakenLedger) -> None:
        try:
            async with asyncio.timeout(UNLOCK_S):
                await self._marks.release(taken)
        except (CoreError, TimeoutError) as error:
            logger.info("ledger_locked_still ledger=%d %s", taken.ledger_id, error)
