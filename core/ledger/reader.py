"""Reads one ledger: its entries, how far it is confirmed, and what comes next at its tail.

Invariant: an entry is given out only when its digest is right, and by `read` only at or below the
LAC, which never moves back. A replica that fails, has nothing, is silent, or holds wrong bytes is
passed over for the next one.
"""

import asyncio
import logging
from typing import Any, Final

from tailrace.core.errors import (
    CoreError,
    EntryNotFound,
    LedgerNotFound,
    MetadataConflict,
    Unavailable,
)
from tailrace.core.ledger.batch_read import BatchRead, is_on_each_bookie
from tailrace.core.ledger.bookie_registry import BookieRegistry
from tailrace.core.ledger.entry_limit import has_large_entries
from tailrace.core.ledger.lac_reads import glimpse_lac, search_lac
from tailrace.core.ledger.long_poll import Outcome
from tailrace.core.ledger.metadata_update import LedgerNodes, StoredLedger
from tailrace.core.ledger.metadata_watch import MetadataWatch
from tailrace.core.ledger.outcomes import ABSENT
from tailrace.core.ledger.range_read import RangeRead, ReadContext
from tailrace.core.ledger.replicas import Replicas
from tailrace.core.ledger.schedule import Schedules
from tailrace.core.ledger.tail_read import TailRead
from tailrace.core.metadata.ledger_metadata import LedgerMetadata
from tailrace.protocol.bookkeeper.digest import Digest
from tailrace.protocol.bookkeeper.entry import Entry
from tailrace.protocol.bookkeeper.messages import StatusCode
from tailrace.protocol.ids import NO_ENTRY, BookieId, EntryId

logger = logging.getLogger(__name__)

SOME_BYTES: Final = 16 * 1024 * 1024
"""What `read_some` gathers of large entries, and what one of its pieces may go beyond it is
`LARGE_AT_ONCE` entries."""
LARGE_AT_ONCE: Final = 2
"""Entries of up to 72 MiB that are asked for at once."""

_MOVES_MAX: Final = 3
"""How often one read follows entries that were moved to other bookies."""
_QUIET_S: Final = 0.01
_QUIET_S_MAX: Final = 0.5
"""Pauses of a wait at the tail when bookies answer at once that they know nothing."""


class LedgerReader:
    """A view of one ledger, open or closed. It never fences and never writes."""

    def __init__(
        self,
        stored: StoredLedger,
        nodes: LedgerNodes,
        bookies: BookieRegistry,
        window: int = 32,
        *,
        replicas: Replicas | None = None,
    ) -> None:
        """`window`: entries asked for at once. `replicas`: shared by the readers of a client."""
        self.ledger_id = stored.ledger_id
        self._stored = stored
        self._nodes = nodes
        self._replicas = replicas or Replicas(bookies)
        self._window = window
        self._digest = Digest(stored.metadata.digest, stored.metadata.password)
        self._last_confirmed = NO_ENTRY
        self._entry_bytes = 0
        """Payload of an entry on the average, as the last one that a batch brought tells; 0: none.
        """
        self._watch = MetadataWatch(nodes, stored.ledger_id, self._install)
        metadata = stored.metadata
        sticks = self._replicas.config.sticky and metadata.ensemble_size == metadata.write_quorum
        self._sticky: int | None = self.ledger_id % metadata.ensemble_size if sticks else None
        self._install(stored)

    @property
    def metadata(self) -> LedgerMetadata:
        """The metadata as last read."""
        return self._stored.metadata

    @property
    def last_confirmed(self) -> EntryId:
        """The highest entry known to be confirmed, inclusive; the last one of a closed ledger."""
        return self._last_confirmed

    @property
    def is_closed(self) -> bool:
        """Whether the end was fixed when the metadata was last read."""
        return self._stored.metadata.is_closed

    @property
    def length(self) -> int:
        """Payload bytes of a closed ledger; 0 of an open one."""
        metadata = self._stored.metadata
        return metadata.length if metadata.is_closed else 0

    def note_confirmed(self, lac: EntryId) -> None:
        """Take somebody's word for a LAC (the writer of the same process); it never moves back."""
        if lac > self._last_confirmed and not self.is_closed:
            self._last_confirmed = lac

    # ------------------------------------------------------------------ entries

    async def read(self, first: EntryId, last: EntryId, *, parallel: bool = False) -> list[Entry]:
        """Return the entries from `first` to `last`, inclusive.

        Shape: the caller bounds the range; payloads are views of what the bookies sent.
        `parallel`: ask all replicas of an entry at once, for the lowest delay.
        Errors: EntryNotFound beyond the LAC; else when all replicas of an entry failed, the error
        that says most: CorruptData before BookieUnavailable before EntryNotFound; LedgerNotFound
        when the ledger was deleted.
        Cost: one round trip per `window` entries, or per few MiB and 256 entries where the ledger
        is not striped and its bookies read batches.
        """
        self._check_confirmed(first, last)
        entries = [] if parallel else await self._read_in_batches(first, last)
        return entries + await self._read(first + len(entries), last, parallel=parallel)

    async def read_some(self, first: EntryId, last: EntryId) -> list[Entry]:
        """Return entries from `first` on: at least one, and all up to `last` unless they are large.

        For who guesses by their average how many are read at once: of a ledger that may have
        entries above 5 MiB no more come than make `SOME_BYTES`, and one more piece.
        Errors: as `read`.
        """
        if not has_large_entries(self.metadata.custom):
            return await self.read(first, last)
        self._check_confirmed(first, last)
        entries: list[Entry] = []
        size, count = 0, 1
        while first <= last and size < SOME_BYTES:
            to = min(last, first + count - 1)
            some = await self._read_in_batches(first, to, answers_max=1)
            some = some or await self._read(first, min(to, first + LARGE_AT_ONCE - 1))
            entries += some
            largest = max(len(entry.payload) for entry in some)
            size += sum(len(entry.payload) for entry in some)
            first = some[-1].entry_id + 1
            count = max(1, min(2 * count, (SOME_BYTES - size) // (largest + 1)))
        return entries

    async def _read_in_batches(
        self, first: EntryId, last: EntryId, answers_max: int | None = None
    ) -> list[Entry]:
        """Return the entries from `first` on as far as batches bring them; [] if there are none."""
        if last <= first or not is_on_each_bookie(self._schedules, first, last):
            return []
        entry_bytes = self._entry_bytes or self.length // (self._last_confirmed + 1)
        read = BatchRead(self._context, first, last, entry_bytes, answers_max)
        entries = await read.run()
        if entries:
            self._nodes.metrics.reads_total += len(entries)
            self._entry_bytes = entries[-1].length // (entries[-1].entry_id + 1)
            self.note_confirmed(entries[-1].lac)
        return entries

    def _check_confirmed(self, first: EntryId, last: EntryId) -> None:
        if first < 0 or last > self._last_confirmed:
            raise EntryNotFound(
                f"entries {first}..{last} of ledger {self.ledger_id}, confirmed up to"
                f" {self._last_confirmed}"
            )

    async def read_unconfirmed(self, first: EntryId, last: EntryId) -> list[Entry]:
        """Return entries that need not be confirmed: they may vanish, and come again otherwise.

        Errors: as `read`; EntryNotFound when no replica has one of them.
        """
        if first < 0:
            raise EntryNotFound(f"entry {first} of ledger {self.ledger_id}")
        return await self._read(first, last)

    async def _read(self, first: EntryId, last: EntryId, *, parallel: bool = False) -> list[Entry]:
        if last < first:
            return []
        for _ in range(_MOVES_MAX):
            holders = self._holders(first, last)
            read = RangeRead(self._context, first, last, parallel=parallel)
            try:
                entries = await read.start()
            except CoreError as error:
                await self._look_again(error)
                if self._holders(first, last) == holders:
                    raise  # nobody else has them
            else:
                self._nodes.metrics.reads_total += len(entries)
                self.note_confirmed(max(read.lac, entries[-1].lac))
                return entries
        raise MetadataConflict(f"the entries of ledger {self.ledger_id} are being moved")

    async def _look_again(self, error: CoreError) -> None:
        """Read the metadata after all replicas of an entry failed. Errors: LedgerNotFound."""
        try:
            self._install(await self._nodes.read(self.ledger_id))
        except LedgerNotFound as gone:
            raise gone from error
        except Unavailable as away:
            # What the replicas said is all there is to say.
            logger.info("ledger_unread ledger=%d error=%s", self.ledger_id, away)

    def _holders(self, first: EntryId, last: EntryId) -> list[tuple[EntryId, tuple[BookieId, ...]]]:
        """Return the fragments that hold a range."""
        fragments = self.metadata.fragments
        ends = [fragment.first_entry_id for fragment in fragments[1:]]
        return [
            (fragment.first_entry_id, fragment.ensemble)
            for fragment, end in zip(fragments, [*ends, last + 1], strict=True)
            if fragment.first_entry_id <= last and end > first
        ]

    # ------------------------------------------------------------------ how far it is confirmed

    async def read_last_confirmed(self) -> EntryId:
        """Ask the metadata and then the bookies how far the ledger is confirmed; return the LAC.

        Nothing that was acknowledged before is behind it but the last entry's own LAC, unless the
        metadata server that answers lags behind and knows an older fragment as the last.
        Errors: BookieUnavailable when too few bookies answer; LedgerNotFound when it was deleted.
        Cost: one metadata read; for an open ledger also one request to each bookie of the ensemble.
        """
        await self._ask_quorum()
        return self._last_confirmed

    async def try_read_last_confirmed(self) -> EntryId:
        """Return the LAC as the first bookie knows it that knows more than this reader.

        Quicker than `read_last_confirmed` when bookies are slow; there may be a higher one.
        Errors: BookieUnavailable when nobody answers.
        """
        if not self.is_closed:
            lac = await glimpse_lac(self._context, self._schedules.last, self._last_confirmed)
            self.note_confirmed(lac)
        return self._last_confirmed

    async def read_explicit_lac(self) -> EntryId:
        """Return the highest LAC that the writer sent without an entry, -1 for none.

        Of a closed ledger its last entry. Errors, cost: as `read_last_confirmed`.
        """
        return await self._ask_quorum()

    async def _ask_quorum(self) -> EntryId:
        """Move the LAC on by a quorum's word; return the explicit one."""
        self._install(await self._nodes.read(self.ledger_id))
        if self.is_closed:
            return self._last_confirmed
        floor = self._schedules.last_first_entry_id - 1
        told = await search_lac(self._context, self._schedules.last, floor)
        self.note_confirmed(told.lac)
        return told.explicit

    # ------------------------------------------------------------------ the tail

    async def read_last_confirmed_and_entry(
        self, entry_id: EntryId, timeout_ms: int
    ) -> tuple[EntryId, Entry | None]:
        """Wait until an entry is confirmed; return the LAC and the entry.

        The entry is None when the time is over, or when the ledger was closed before it, which
        `is_closed` tells. Bookies hold answers back for `timeout_ms`; slow ones take longer.
        Errors: as `read`. Cancel: nothing is lost.
        """
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + timeout_ms / 1000
        quiet_s = _QUIET_S
        self._nodes.metrics.long_polls_total += 1
        while True:
            if not self.is_closed:
                await self._watch.refresh()
            if entry_id <= self._last_confirmed:
                (entry,) = await self.read(entry_id, entry_id)
                return self._last_confirmed, entry
            if self.is_closed:
                return self._last_confirmed, None
            version = self._watch.version
            found = await self._wait_at_tail(entry_id, deadline_s)
            if found is not None:
                return self._last_confirmed, found
            if self._watch.version != version or entry_id <= self._last_confirmed:
                continue  # it was closed, or has other bookies now, or others heard more
            left_s = deadline_s - loop.time()
            if left_s <= 0:
                return self._last_confirmed, None
            await self._pause(min(quiet_s, left_s))
            quiet_s = min(quiet_s * 2, _QUIET_S_MAX)

    async def _wait_at_tail(self, entry_id: EntryId, deadline_s: float) -> Entry | None:
        """Return the entry; None when there is no news, or the metadata changed."""
        wait = TailRead(self._context, self._schedules.last, entry_id, deadline_s)
        coming = wait.start()
        try:
            waiting: list[asyncio.Future[Any]] = [coming, self._watch.changed()]
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            outcome = coming.result() if coming.done() else Outcome.EMPTY
        finally:
            wait.stop()
        if outcome is Outcome.FAILED:
            assert wait.error is not None
            raise wait.error
        entry = wait.entry
        if outcome is Outcome.ADVANCED:
            # The LAC is one bookie's word until a replica proves it by the entry.
            (entry,) = await self._read(entry_id, entry_id)
        if entry is not None:
            self.note_confirmed(max(wait.lac, entry_id))
        return entry

    async def _pause(self, pause_s: float) -> None:
        await asyncio.wait([self._watch.changed()], timeout=pause_s)

    # ------------------------------------------------------------------ inside

    def _install(self, stored: StoredLedger) -> None:
        """Take metadata over, unless it is older: a lagging server may answer a new session."""
        if stored.version < self._stored.version:
            return
        metadata = stored.metadata
        self._stored = stored
        self._schedules = Schedules(metadata.fragments, metadata.write_quorum, metadata.ack_quorum)
        self._context = ReadContext(
            self.ledger_id,
            self._digest,
            self._schedules,
            self._replicas,
            self._window,
            self._nodes.metrics,
            self._order,
            self._on_replica_failed,
        )
        if metadata.is_closed:
            if metadata.last_entry_id < self._last_confirmed:
                logger.error(
                    "ledger_closed_below_lac ledger=%d last_entry=%d lac=%d",
                    self.ledger_id, metadata.last_entry_id, self._last_confirmed,
                )  # fmt: skip
            self._last_confirmed = max(self._last_confirmed, metadata.last_entry_id)

    def _order(self, entry_id: EntryId) -> tuple[BookieId, ...]:
        schedule = self._schedules.of(entry_id)
        first = entry_id if self._sticky is None else self._sticky
        return self._replicas.order(schedule.write_bookies(first))

    def _on_replica_failed(self, entry_id: EntryId, bookie: BookieId, status: StatusCode) -> None:
        if status in ABSENT and entry_id > self._last_confirmed:
            return  # nobody promised that it is there
        self._replicas.on_failure(bookie, status)
        if self._sticky is not None:
            ensemble = self._schedules.of(entry_id).ensemble
            if ensemble[self._sticky] == bookie:
                self._sticky = (self._sticky + 1) % len(ensemble)
