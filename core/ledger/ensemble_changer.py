"""Replaces the failed bookies of a ledger that is written to or recovered.

The I/O beside `ensemble_change`'s decisions.

    failure -> freeze -> choose other bookies -> commit the fragment at LAC + 1 -> install, resend

Invariant: nothing is confirmed between freeze and install, and nothing at all after a commit whose
outcome is unknown. A change that cannot be had ends the ledger only if an entry waits for it.
Frozen from the first failure on, so that what waits then gets all its copies in the new ensemble.
Nothing new is sent to a bookie before the metadata names it (BookKeeper #1591).
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple, TypeAlias

from tailrace.core.errors import CoreError, NotEnoughBookies, OverCapacity, Unavailable
from tailrace.core.ledger.add_options import AddFailure
from tailrace.core.ledger.adder import EntryAdder
from tailrace.core.ledger.ensemble_change import FailedBookies
from tailrace.core.ledger.ensembles import Ensembles
from tailrace.core.ledger.metadata_update import UNAVAILABLE_PAUSES_S
from tailrace.core.ledger.metrics import LedgerMetrics
from tailrace.core.ledger.placement_policy import Quorums
from tailrace.core.runtime.tasks import Tasks
from tailrace.protocol.bookkeeper.entry import MAX_ENTRY_BYTES
from tailrace.protocol.bookkeeper.messages import StatusCode
from tailrace.protocol.ids import BookieId, EntryId

logger = logging.getLogger(__name__)

CHOICE_S: Final = 1.0
"""How long adds may wait for the list of bookies; then they go on with those that answer."""
PAUSE_S: Final = 1.0
PAUSE_S_MAX: Final = 30.0
"""How long a ledger that has enough bookies left waits before it looks for a spare one again."""
FRUITLESS_MAX: Final = 3
"""Changes in a row, with nothing confirmed in between, that follow each other at once."""
FRUITLESS_S: Final = 0.01
FRUITLESS_S_MAX: Final = 1.0
"""Then they wait, longer each time: bookies that died stay registered until their sessions end, and
would take each other's places in circles, each time with a commit."""


class EnsembleChange(NamedTuple):
    """A change of ensemble that is about to be committed."""

    first_entry_id: EntryId
    before: tuple[BookieId, ...]
    ensemble: tuple[BookieId, ...]


Commit: TypeAlias = Callable[[EnsembleChange], Awaitable[tuple[BookieId, ...]]]
"""Makes a change count and returns the ensemble that counts then. Errors: CoreError ends it all."""


class ChangePolicy(NamedTuple):
    """When a ledger may change its ensemble."""

    delay: bool = False
    """Not before an entry cannot reach Qa otherwise."""
    changes_max: int = 2**31 - 1
    """One more ends the ledger."""
    forbidden: bool = False
    """The first failure ends the ledger: with deferred sync a bookie that is left takes entries
    with it that it answered and never synced."""
    regions_min: int | None = None
    """What the ledger was promised when it was made, see `durability`; None: not known."""
    entry_bytes: int = MAX_ENTRY_BYTES
    """The largest entry that the ledger may have, see `entry_limit`."""


class EnsembleChanger:
    """The failure listener of one ledger's adds. It owns one task at a time; close it."""

    def __init__(
        self, adder: EntryAdder, ensembles: Ensembles, commit: Commit, policy: ChangePolicy,
        metrics: LedgerMetrics,
    ) -> None:  # fmt: skip
        self._adder = adder
        self._ensembles = ensembles
        self._commit = commit
        self._policy = policy
        self._metrics = metrics
        self._failed = FailedBookies(adder.ensemble, delay=policy.delay)
        self._cause: CoreError | None = None  # why the ledger fails if nobody can be replaced
        self._tasks = Tasks("ledger", self._on_broken)
        self._task: asyncio.Task[None] | None = None
        self._pause_s = PAUSE_S
        self._timer: asyncio.TimerHandle | None = None
        self._stopped = False
        self._fruitless = 0
        self._lac_before: EntryId | None = None  # when the last change began

    def on_add_failed(self, failure: AddFailure) -> None:
        """Take note of a failed add and begin to replace its bookie when that is due."""
        self._ensembles.report_failure(failure.bookie, failure.status)
        if self._policy.forbidden:
            self._adder.fail(failure.error)
            return
        if failure.is_stuck or self._cause is None:
            self._cause = failure.error
        if failure.is_stuck and not self._failed.is_stuck:
            self._note_stuck()
        read_only = failure.status is StatusCode.EREADONLY
        self._failed.on_failure(failure.bookie, urgent=read_only, stuck=failure.is_stuck)
        self._start_if_due()

    async def settled(self) -> None:
        """Take no more failures, and wait for the change that is on its way, if any."""
        self._stop()
        if self._task is not None and not self._task.done():
            await asyncio.wait([self._task])

    def abort(self) -> None:
        """End at once; a commit that is on its way may still happen."""
        self._stop()
        if self._task is not None:
            self._task.cancel()

    # -- inside ---

    def _stop(self) -> None:
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()

    def _start_if_due(self) -> None:
        if self._failed.is_due and self._adder.error is None and not self._is_over():
            places = self._failed.begin()
            self._adder.freeze()
            self._task = self._tasks.spawn(
                self._run(places), f"ensemble_change {self._adder.ledger_id}"
            )

    def _is_over(self) -> bool:
        """Tell whether nothing depends on a change any more: closing, and all is confirmed."""
        return self._stopped and not self._adder.unconfirmed_entries

    async def _run(self, places: dict[int, BookieId]) -> None:
        try:
            await self._change(places)
            while self._failed.is_due and self._adder.error is None and not self._is_over():
                places = self._failed.begin()
                self._adder.freeze()
                await self._change(places)
        except CoreError as error:
            self._adder.fail(error)

    async def _change(self, places: dict[int, BookieId]) -> None:
        adder, failed = self._adder, self._failed
        if failed.changes >= self._policy.changes_max:
            raise NotEnoughBookies(
                f"ledger {adder.ledger_id} has changed its ensemble {failed.changes} times,"
                f" the most that it may ({self._cause})"
            )
        await self._wait_if_fruitless()
        before = adder.ensemble
        ensemble = await self._choose(before, places)
        if ensemble is not None and adder.error is None:
            change = EnsembleChange(adder.lac + 1, before, ensemble)
            self._on_committed(places, await self._commit(change))

    async def _wait_if_fruitless(self) -> None:
        lac = self._adder.lac
        self._fruitless = self._fruitless + 1 if lac == self._lac_before else 0
        self._lac_before = lac
        if self._fruitless >= FRUITLESS_MAX:
            doublings = min(self._fruitless - FRUITLESS_MAX, 10)
            await asyncio.sleep(min(FRUITLESS_S * 2**doublings, FRUITLESS_S_MAX))

    async def _choose(
        self, before: tuple[BookieId, ...], places: dict[int, BookieId]
    ) -> tuple[BookieId, ...] | None:
        """Return the next ensemble; None: the ledger goes on with the present one."""
        schedule = self._adder.schedule
        quorums = Quorums(len(before), schedule.write_quorum, schedule.ack_quorum)
        error: Exception = Unavailable("nobody was asked")
        for pause_s in UNAVAILABLE_PAUSES_S:
            try:
                async with asyncio.timeout(CHOICE_S):
                    return await self._ensembles.replace(
                        before,
                        places,
                        quorums,
                        self._policy.regions_min,
                        entry_bytes=self._policy.entry_bytes,
                    )
            except NotEnoughBookies as none:
                error = none
                break
            except (Unavailable, OverCapacity, TimeoutError) as away:
                error = away
                if not self._adder.is_stuck:
                    break  # go on without; what waits would wait for nothing
            await asyncio.sleep(pause_s)
        self._on_nothing_replaced(error)
        return None

    def _on_committed(self, places: dict[int, BookieId], ensemble: tuple[BookieId, ...]) -> None:
        adder = self._adder
        if adder.error is not None:
            return
        self._metrics.ensemble_changes_total += 1
        self._pause_s = PAUSE_S
        logger.info(
            "ensemble_changed ledger=%d first_entry=%d failed=%s ensemble=%s",
            adder.ledger_id, adder.lac + 1, list(places.values()), list(ensemble),
        )  # fmt: skip
        self._failed.on_installed(ensemble)
        adder.install(ensemble)
        if adder.is_stuck:
            self._note_stuck()
        else:
            self._cause = None

    def _note_stuck(self) -> None:
        """Replace all that failed entries which still wait, not only the one that was too much."""
        for bookie in self._adder.failed_bookies():
            self._failed.on_failure(bookie, stuck=True)

    def _on_nothing_replaced(self, error: Exception) -> None:
        adder = self._adder
        self._failed.on_nothing_replaced()
        if adder.is_stuck:
            logger.warning("ensemble_lost ledger=%d %s", adder.ledger_id, error)
            raise self._cause or NotEnoughBookies(str(error))
        self._metrics.ensemble_changes_refused_total += 1
        logger.warning(
            "ensemble_degraded ledger=%d retry_s=%g %s", adder.ledger_id, self._pause_s, error
        )
        if not self._stopped:
            self._timer = asyncio.get_running_loop().call_later(self._pause_s, self._try_again)
            self._pause_s = min(2 * self._pause_s, PAUSE_S_MAX)
        adder.install(adder.ensemble)

    def _try_again(self) -> None:
        self._failed.on_pause_over()
        self._start_if_due()

    def _on_broken(self, error: Exception) -> None:
        """Our own bug: what waits must hear of it."""
        self._adder.fail(Unavailable(f"the ensemble change failed: {error!r}"))
