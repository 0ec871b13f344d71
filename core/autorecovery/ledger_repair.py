"""Repairs one ledger whose lock we hold: check, copy, commit, check again.

The copies of a fragment are synced before the metadata names who has them, and only by
compare-and-set on what is stored then: what somebody else changed meanwhile is looked at anew and
never overwritten. So whoever stops anywhere leaves the old metadata or the new, both true.

The lock keeps others from doing the work twice, and bookies from removing copies that no metadata
names yet. It goes with the session, and a commit may come later: it waited in line while the
session ended, or had no answer. It may name a bookie that removed its copy in between. So the mark
is written again in the same step: the commit fails when nobody will look at the ledger any more,
and nobody who looked before it is done with that mark.
Source: BookKeeper ReplicationWorker.rereplicate, LedgerFragmentReplicator.
"""

import logging
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

from tailrace.core.autorecovery.copying import FragmentCopier, LockLost
from tailrace.core.autorecovery.fragments import FragmentSpan, Replacement, with_replacements
from tailrace.core.autorecovery.ledger_check import CheckedFragment, LedgerCheck
from tailrace.core.autorecovery.replication_metrics import ReplicationMetrics
from tailrace.core.autorecovery.underreplicated import TakenLedger, UnderreplicatedLedgers
from tailrace.core.errors import (
    BookieUnavailable,
    CoreError,
    EntryNotFound,
    MetadataConflict,
    NotEnoughBookies,
)
from tailrace.core.ledger.context import LedgerContext
from tailrace.core.ledger.metadata_update import Decide, StoredLedger
from tailrace.core.metadata.ledger_metadata import Fragment, LedgerMetadata, LedgerState
from tailrace.protocol.ids import BookieId

logger = logging.getLogger(__name__)


COMMITS_MAX: Final = 8
"""How often a commit is tried again because somebody wrote the mark."""


class OpenEnd(NamedTuple):
    """The last fragment of a ledger that is not closed, with what it misses."""

    fragment: Fragment
    gone: frozenset[BookieId]
    """Members that are not registered."""
    lacking: frozenset[BookieId]
    """Members that are there, and have not got what was confirmed."""
    has_writer: bool
    """Nobody began to recover the ledger."""

    @property
    def awaited(self) -> frozenset[BookieId]:
        """Members that make it be closed, unless they come back: a writer may leave holes."""
        return self.gone if self.has_writer else self.gone | self.lacking


class RepairOutcome(NamedTuple):
    """What is left to do for a ledger; nothing if both are None."""

    problem: CoreError | None = None
    """Why something is still missing, or not known to be there."""
    open_end: OpenEnd | None = None
    """What only closing the ledger can mend: a member of its end is gone, or, with no writer left
    because somebody began to recover it, lacks entries."""


class LedgerRepair:
    """Repairs ledgers, any number at a time."""

    def __init__(
        self, context: LedgerContext, marks: UnderreplicatedLedgers, check: LedgerCheck,
        copier: FragmentCopier, metrics: ReplicationMetrics,
    ) -> None:  # fmt: skip
        self._nodes = context.nodes
        self._marks = marks
        self._check = check
        self._copier = copier
        self._metrics = metrics

    async def repair(self, taken: TakenLedger) -> RepairOutcome:
        """Copy what is missing in all closed fragments; return what is left.

        Errors: LedgerNotFound when the ledger is deleted; LockLost; CorruptData for metadata that
        cannot be read; Unavailable. What fails one fragment is told in the outcome.
        Cancel: the metadata names old bookies or new ones, and the new ones have all entries.
        """
        stored = await self._nodes.read(taken.ledger_id)
        checked = await self._check.check(stored)
        damaged = [one for one in checked if one.missing and not one.span.is_open]
        errors: list[CoreError] = []
        for fragment in damaged:
            try:
                stored = await self._repair_fragment(taken, stored, fragment, errors)
            except LockLost:
                raise
            except CoreError as error:
                errors.append(error)
        if damaged:
            stored = await self._nodes.read(taken.ledger_id)
            checked = await self._check.check(stored)
        return outcome_of(stored, checked, errors)

    async def _repair_fragment(
        self, taken: TakenLedger, stored: StoredLedger, fragment: CheckedFragment,
        errors: list[CoreError],
    ) -> StoredLedger:  # fmt: skip
        """Copy and commit what can be copied; return the metadata then, and tell what cannot."""
        copied = await self._copier.copy(stored, fragment, partial(self._marks.is_held, taken))
        if copied.error is not None:
            errors.append(copied.error)
        if not copied.replacements:
            return stored
        return await self._commit(taken, stored, fragment.span, copied.replacements)

    async def _commit(
        self, taken: TakenLedger, stored: StoredLedger, span: FragmentSpan,
        replacements: Mapping[int, Replacement],
    ) -> StoredLedger:  # fmt: skip
        """Have the metadata name the bookies that have the copies, where that is still right."""
        wanted: LedgerMetadata | None = None

        def decide(current: LedgerMetadata) -> LedgerMetadata | None:
            nonlocal wanted
            if not self._marks.is_held(taken):
                raise _lock_lost(taken)
            wanted = with_replacements(current, span, replacements)
            return wanted

        after = await self._update(taken, stored, decide)
        if wanted is None:
            self._metrics.updates_outrun_total += 1
            return after
        taken.version += 1
        self._metrics.fragments_replaced_total += 1
        logger.info(
            "fragment_replaced ledger=%d first_entry=%d last_entry=%d %s",
            taken.ledger_id, span.first_entry_id, span.last_entry_id,
            " ".join(f"{new.before}->{new.after}" for new in replacements.values()),
        )  # fmt: skip
        if not self._marks.is_held(taken):
            raise _lock_lost(taken)
        return after

    async def _update(
        self, taken: TakenLedger, stored: StoredLedger, decide: Decide
    ) -> StoredLedger:
        """Change the metadata, and with it the mark, as that is by now.

        Errors: LockLost, also when there is no mark: nobody would look at the ledger again.
        """
        for _ in range(COMMITS_MAX):
            try:
                return await self._nodes.update(
                    stored, decide, lambda: [self._marks.written_anew(taken)]
                )
            except LockLost:
                raise
            except MetadataConflict as conflict:
                # Somebody marked it anew, or a commit of ours had no answer.
                if not await self._marks.renew(taken):
                    raise LockLost(f"ledger {taken.ledger_id} has no mark any more") from conflict
        raise MetadataConflict(f"the mark of ledger {taken.ledger_id} changes all the time")


def outcome_of(
    stored: StoredLedger, checked: Sequence[CheckedFragment], errors: Sequence[CoreError]
) -> RepairOutcome:
    """Return what is left of a ledger that was looked at after the copies were made.

    `errors`: of the copies; they are history if nothing is missing any more.
    """
    ledger_id = stored.ledger_id
    problem: CoreError | None = None
    open_end = None
    has_writer = stored.metadata.state is LedgerState.OPEN
    for one in checked:
        where = f"ledger {ledger_id} from entry {one.span.first_entry_id} on"
        if one.span.is_open and (one.gone or (one.lacking and not has_writer)):
            gone, lacking = map(frozenset, map(one.bookies_at, (one.gone, one.lacking)))
            open_end = OpenEnd(stored.metadata.fragments[-1], gone, lacking, has_writer)
        elif one.span.is_open and one.lacking:
            problem = problem or EntryNotFound(
                f"{where}: {_names(one, one.lacking)} has not got what was confirmed;"
                " it is copied once the ledger is closed"
            )
        elif one.missing:
            problem = (
                problem
                or next(iter(errors), None)
                or NotEnoughBookies(
                    f"{where}: copies are still missing at {', '.join(one.missing.values())}"
                )
            )
        if one.doubtful:
            problem = problem or BookieUnavailable(
                f"{where}: {_names(one, one.doubtful)} is registered and does not say what it has"
            )
    return RepairOutcome(problem, open_end)


def _names(fragment: CheckedFragment, places: set[int]) -> str:
    return ", ".join(fragment.bookies_at(places))


def _lock_lost(taken: TakenLedger) -> LockLost:
    return LockLost(f"the lock of ledger {taken.ledger_id} went with its session")
