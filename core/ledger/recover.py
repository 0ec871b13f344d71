"""Finds and fixes the end of a ledger whose writer is gone: the I/O beside `recovery`'s decisions.

    R1 metadata OPEN -> IN_RECOVERY          R4 read forward until the first entry that is absent
    R2 fence the last ensemble, find the LAC R5 add again what is there, to its whole write set
    R3 floor: the last fragment's beginning  R6 metadata IN_RECOVERY -> CLOSED

R1 and R2 go side by side: R1 names the version that R2's ensemble was read with, so that either the
ensemble that was fenced is the last one, now and for good, or R1 fails and R2 is done anew.

Invariant: it may stop anywhere and be begun again, by anybody, also several at once: the verdicts
agree, adding again changes nothing, and the first CLOSED counts for all. A bookie that fails while
entries are added again is replaced in memory; the new fragments come with CLOSED, or never.
Why add again: an entry seen on one bookie may be in its memory only, or on fewer than Qa bookies;
before the closed ledger exposes it, it must be safe. Source: BookKeeper LedgerRecoveryOp.
"""

import logging
from collections.abc import Awaitable, Callable, Collection
from dataclasses import replace
from typing import Final, NamedTuple, TypeVar

from tailrace.core.errors import CoreError, MetadataConflict, NotEnoughBookies, Unavailable
from tailrace.core.ledger.add_options import AddOptions
from tailrace.core.ledger.adder import EntryAdder
from tailrace.core.ledger.context import LedgerContext
from tailrace.core.ledger.durability import promise_of
from tailrace.core.ledger.ensemble_change import with_ensemble, with_recovered, without_unwritten
from tailrace.core.ledger.ensemble_changer import ChangePolicy, EnsembleChange, EnsembleChanger
from tailrace.core.ledger.entry_limit import entry_limit_of, has_large_entries
from tailrace.core.ledger.metadata_update import StoredLedger
from tailrace.core.ledger.reader import LedgerReader
from tailrace.core.ledger.recovery_reads import RecoveryReads
from tailrace.core.metadata.ledger_metadata import LedgerMetadata, LedgerState
from tailrace.core.runtime.tasks import both
from tailrace.protocol.bookkeeper.entry import Entry
from tailrace.protocol.ids import NO_ENTRY, BookieId, EntryId

T = TypeVar("T")

logger = logging.getLogger(__name__)

ATTEMPTS_MAX: Final = 8
"""How often recovery begins anew because somebody replaced bookies under it."""
BATCH_MAX: Final = 64
LARGE_BATCH_MAX: Final = 2
"""Of a ledger whose entries may be larger than 5 MiB: up to 72 MiB each, whatever the mean is."""
BATCH_BYTES: Final = 1024 * 1024
"""What recovery of one ledger aims to have in memory, if a batch of the given size is not more."""


class _Silent:
    """Recovery asks its adder instead of listening to it."""

    def on_confirmed(self, lac: EntryId) -> None: ...
    def on_failed(self, error: CoreError) -> None: ...


_SILENT: Final = _Silent()


class Recovered(NamedTuple):
    """A ledger that is closed."""

    stored: StoredLedger
    last_entry: Entry | None = None
    """Its last entry, if recovery came by it."""


class _EnsembleMoved(MetadataConflict):
    """The last fragment is not any more what the entries were added to."""


class _IsClosed(Exception):
    """Another recovery was faster, and its end counts."""

    def __init__(self, stored: StoredLedger) -> None:
        super().__init__(f"ledger {stored.ledger_id} is closed")
        self.stored = stored


async def recover_ledger(
    stored: StoredLedger,
    context: LedgerContext,
    read_batch: int,
    distrusted: Collection[BookieId] = frozenset(),
) -> Recovered:
    """Close a ledger at its true end; one that is closed is left alone.

    `distrusted`: bookies that are known to have lost entries: "no such entry" of these proves
    nothing, while what they have counts as ever.
    Errors: BookieUnavailable, CorruptData and their kin when too few bookies answer validly: the
    ledger stays IN_RECOVERY and a later attempt may succeed. Cancel: as if it had stopped there.
    """

    async def once(stored: StoredLedger) -> Recovered:
        if stored.metadata.is_closed:
            return Recovered(stored)
        recovery = _Recovery(stored, context, distrusted)
        lac = await recovery.begin()
        if recovery.stored.metadata.is_closed:
            return Recovered(recovery.stored)
        return await recovery.run(lac, read_batch)

    return await _until_not_moved(stored, context, once)


async def fence_ledger(stored: StoredLedger, context: LedgerContext) -> None:
    """See to it that no writer is told of another entry; where the ledger ends is not found out.

    For a ledger that is to be deleted: R1 and R2. Errors, cancel: as `recover_ledger`.
    """

    async def once(stored: StoredLedger) -> None:
        if not stored.metadata.is_closed:
            await _Recovery(stored, context).begin()

    await _until_not_moved(stored, context, once)


async def _until_not_moved(
    stored: StoredLedger, context: LedgerContext, once: Callable[[StoredLedger], Awaitable[T]]
) -> T:
    for _ in range(ATTEMPTS_MAX):
        try:
            return await once(stored)
        except _EnsembleMoved as error:
            logger.info("ledger_recovery_again ledger=%d %s", stored.ledger_id, error)
            stored = await context.nodes.read(stored.ledger_id)
    raise MetadataConflict(f"ledger {stored.ledger_id} changed under {ATTEMPTS_MAX} recoveries")


def _decide_begin(current: LedgerMetadata) -> LedgerMetadata | None:
    return current.in_recovery() if current.state is LedgerState.OPEN else None


class _Recovery:
    def __init__(
        self,
        stored: StoredLedger,
        context: LedgerContext,
        distrusted: Collection[BookieId] = frozenset(),
    ) -> None:
        self.stored = stored
        self._ledger_id = stored.ledger_id
        self._context = context
        self._nodes = context.nodes
        self._bookies = context.bookies
        self._fragments = stored.metadata.fragments
        self.reads = RecoveryReads(stored, context.bookies, distrusted)
        self._last_entry: Entry | None = None

    async def begin(self) -> EntryId:
        """Have the ledger IN_RECOVERY, and its last ensemble fenced; return the LAC.

        If somebody else has closed it, `stored` says so, and the LAC says nothing.
        """
        try:
            fenced, self.stored = await both(self.reads.try_fence(), self._begin_metadata())
        except _IsClosed as closed:
            self.stored = closed.stored
            return NO_ENTRY
        fragments = self.stored.metadata.fragments
        if fragments != self._fragments:  # others were fenced than those that count
            raise _EnsembleMoved(f"{self._fragments[-1]} became {fragments[-1]}")
        if isinstance(fenced, CoreError):
            raise fenced
        return fenced

    async def _begin_metadata(self) -> StoredLedger:
        """Have the ledger IN_RECOVERY. Errors: _IsClosed, which ends the fencing beside it."""
        begun = await self._nodes.update(self.stored, _decide_begin)
        if begun.metadata.is_closed:
            raise _IsClosed(begun)
        return begun

    async def run(self, lac: EntryId, read_batch: int) -> Recovered:
        """Find the end and close the ledger, which has begun."""
        last_entry_id, length = await self._read_forward(lac, read_batch)
        if last_entry_id == lac:
            length = await self._length_at(lac)
        closed = await self._nodes.update(
            self.stored, lambda current: self._decide_close(current, last_entry_id, length)
        )
        metrics = self._nodes.metrics
        metrics.recoveries_total += 1
        metrics.recovered_entries_total += last_entry_id - lac
        logger.info(
            "ledger_recovered ledger=%d lac=%d last_entry=%d length=%d",
            self._ledger_id, lac, closed.metadata.last_entry_id, closed.metadata.length,
        )  # fmt: skip
        last = self._last_entry
        is_last = last is not None and last.entry_id == closed.metadata.last_entry_id
        return Recovered(closed, last if is_last else None)

    async def _read_forward(self, lac: EntryId, batch: int) -> tuple[EntryId, int]:
        """Add again everything behind `lac` that may have been acknowledged; return the end.

        Batches begin small, because most ledgers have a short tail, no longer than what the fence
        found, and then follow the size of the entries, because many ledgers recover at once when a
        broker starts.
        """
        adder = self._new_adder(lac)
        custom = self.stored.metadata.custom
        policy = ChangePolicy(regions_min=promise_of(custom), entry_bytes=entry_limit_of(custom))
        changer = adder.failures = EnsembleChanger(
            adder, self._context.ensembles, self._change, policy, self._nodes.metrics
        )
        try:
            await self._add_again(adder, max(1, min(batch, self.reads.newest + 1 - lac)))
            await changer.settled()
        except NotEnoughBookies:
            if not await self.reads.is_unacknowledged(adder.lac + 1):
                raise
            logger.info(
                "ledger_recovery_ends_early ledger=%d entry=%d", self._ledger_id, adder.lac + 1
            )
            return adder.lac, adder.confirmed_length
        except BaseException:
            adder.fail(Unavailable("the recovery that added it again has ended"))
            raise
        finally:
            changer.abort()
        return adder.last_add_pushed, adder.length

    async def _add_again(self, adder: EntryAdder, batch: int) -> None:
        batch_max = LARGE_BATCH_MAX if has_large_entries(self.stored.metadata.custom) else BATCH_MAX
        batch = min(batch, batch_max)
        while True:
            before = adder.length
            next_entry = adder.last_add_pushed + 1
            for found in [self.reads.find(next_entry + i) for i in range(batch)]:
                entry = found if isinstance(found, Entry) else await self.reads.decide(found)
                if entry is None:
                    await adder.drained()
                    return
                self._last_entry = entry
                adder.length = entry.length - len(entry.payload)
                adder.add((entry.payload,))
            await adder.drained()
            mean_bytes = max((adder.length - before) // batch, 1) if before else BATCH_BYTES
            batch = min(max(batch, BATCH_BYTES // mean_bytes), batch_max)

    def _new_adder(self, lac: EntryId) -> EntryAdder:
        metrics, options = self._nodes.metrics, AddOptions(recover_from=(lac, 0))
        return EntryAdder(self.stored, self._bookies, _SILENT, metrics, options)

    async def _change(self, change: EnsembleChange) -> tuple[BookieId, ...]:
        """Take other bookies from an entry on; the metadata learns it with the end."""
        self._fragments = with_ensemble(self._fragments, change.first_entry_id, change.ensemble)
        return change.ensemble

    async def _length_at(self, lac: EntryId) -> int:
        """Return the length at an entry that was confirmed before: no later one told it."""
        if lac < 0:
            return 0
        reader = LedgerReader(self.stored, self._nodes, self._bookies)
        reader.note_confirmed(lac)
        (self._last_entry,) = await reader.read(lac, lac)
        return self._last_entry.length

    def _decide_close(
        self, current: LedgerMetadata, last_entry_id: EntryId, length: int
    ) -> LedgerMetadata | None:
        if current.is_closed:
            return None  # another recoverer was faster, and its end counts
        if current.state is not LedgerState.IN_RECOVERY:
            raise MetadataConflict(f"a ledger in recovery became {current.state.name} again")
        known = self.stored.metadata.fragments
        fragments = with_recovered(current.fragments, known, self._fragments)
        if fragments is None:
            raise _EnsembleMoved(f"{known[-1]} became {current.fragments[-1]}")
        closed = current.closed(last_entry_id, length)
        return replace(closed, fragments=without_unwritten(fragments, last_entry_id))
