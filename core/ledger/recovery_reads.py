"""What recovery reads from bookies: the fence, and each entry behind the LAC. Every read fences.

The answer to the fence brings a bookie's last entry, so that one is not asked for again. Failures
are kept: when too few answers are valid, the one that says most is told.
Source: BookKeeper ReadLastConfirmedOp, LedgerRecoveryOp.
"""

import asyncio
import logging
from collections.abc import Collection
from typing import NamedTuple

from tailrace.core.errors import BookieUnavailable, CoreError, CorruptData
from tailrace.core.ledger.bookie_client import ask_all
from tailrace.core.ledger.bookie_registry import BookieRegistry
from tailrace.core.ledger.metadata_update import StoredLedger
from tailrace.core.ledger.outcomes import ABSENT, error_of, worse
from tailrace.core.ledger.recovery import EntrySearch, LacSearch, Verdict
from tailrace.core.ledger.schedule import Schedules
from tailrace.protocol.bookkeeper.digest import Digest, ledger_master_key
from tailrace.protocol.bookkeeper.entry import Entry, read_entry
from tailrace.protocol.bookkeeper.messages import (
    HIGH_PRIORITY,
    LAST_ENTRY,
    ReadRequest,
    ReadResponse,
    Response,
    StatusCode,
)
from tailrace.protocol.errors import DecodeError
from tailrace.protocol.ids import NO_ENTRY, BookieId, EntryId

logger = logging.getLogger(__name__)


class Asked(NamedTuple):
    """One entry that is being asked for at its whole write set."""

    entry_id: EntryId
    search: EntrySearch
    answers: asyncio.Queue[tuple[BookieId, Response]]


class RecoveryReads:
    """The reads of one recovery, from the ensembles that its ledger had when it began."""

    def __init__(
        self,
        stored: StoredLedger,
        bookies: BookieRegistry,
        distrusted: Collection[BookieId] = frozenset(),
    ) -> None:
        """`distrusted`: bookies that lost entries: that they have none proves nothing."""
        metadata = stored.metadata
        self._distrusted = frozenset(distrusted)
        self._ledger_id = stored.ledger_id
        self._bookies = bookies
        self._digest = Digest(metadata.digest, metadata.password)
        self._master_key = ledger_master_key(metadata.password)
        self._schedules = Schedules(metadata.fragments, metadata.write_quorum, metadata.ack_quorum)
        self._error: CoreError | None = None  # the most telling failure of a bookie
        self._last_entries: dict[EntryId, Entry] = {}
        """What came with the answers to the fence: the last entry of each bookie."""

    @property
    def newest(self) -> EntryId:
        """The last entry that the fence found; -1 without any."""
        return max(self._last_entries, default=NO_ENTRY)

    async def try_fence(self) -> EntryId | CoreError:
        """Fence the last ensemble; return the LAC, or why it could not be done."""
        try:
            return await self._fence()
        except CoreError as error:
            return error

    async def _fence(self) -> EntryId:
        schedule = self._schedules.last
        search = LacSearch(schedule, self._schedules.last_first_entry_id - 1)
        answers = ask_all(
            [self._bookies.client(bookie) for bookie in schedule.ensemble],
            self._fencing_read(LAST_ENTRY),
        )
        while not search.is_covered:
            if search.is_hopeless:
                raise self._failure(f"fence ledger {self._ledger_id}")
            bookie, response = await answers.get()
            if response.status is StatusCode.EUA:
                raise error_of(response.status, f"fence ledger {self._ledger_id} at {bookie}")
            found = self._outcome(bookie, response, None)
            if isinstance(found, CoreError) or (found is None and bookie in self._distrusted):
                search.on_failure(bookie)
            else:
                search.on_answer(bookie, None if found is None else found.lac)
                if found is not None:
                    self._last_entries[found.entry_id] = found
        return search.lac

    def find(self, entry_id: EntryId) -> Entry | Asked:
        """Return the copy that the fence found, else ask its write set for one, at once."""
        return self._last_entries.pop(entry_id, None) or self._ask_entry(entry_id)

    def _ask_entry(self, entry_id: EntryId) -> Asked:
        schedule = self._schedules.of(entry_id)
        clients = [self._bookies.client(b) for b in schedule.write_bookies(entry_id)]
        answers = ask_all(clients, self._fencing_read(entry_id))
        return Asked(entry_id, EntrySearch(schedule, entry_id), answers)

    async def decide(self, asked: Asked) -> Entry | None:
        """Return a valid copy, or None when the entry was never acknowledged.

        Errors: what a bookie said last that says most, when too few answers are valid.
        """
        search = asked.search
        while search.verdict is Verdict.PENDING:
            bookie, response = await asked.answers.get()
            found = self._outcome(bookie, response, asked.entry_id)
            if isinstance(found, Entry):
                return found
            if found is None and bookie not in self._distrusted:
                search.on_absent(bookie)
            else:
                search.on_failure(bookie)
        if search.verdict is Verdict.UNDECIDABLE:
            raise self._failure(f"entry {asked.entry_id} of ledger {self._ledger_id}")
        return None

    async def is_unacknowledged(self, entry_id: EntryId) -> bool:
        """Tell whether an entry that finds no room at a quorum need not be in the ledger.

        The copy that was found may be all there is: the others, fenced by now, prove that nobody
        was told of it.
        """
        asked = self._ask_entry(entry_id)
        while asked.search.verdict is Verdict.PENDING:
            bookie, response = await asked.answers.get()
            if response.status in ABSENT and bookie not in self._distrusted:
                asked.search.on_absent(bookie)
            else:
                asked.search.on_failure(bookie)
        return asked.search.verdict is Verdict.ABSENT

    def _fencing_read(self, entry_id: EntryId) -> ReadRequest:
        return ReadRequest(
            self._ledger_id,
            entry_id,
            fence=True,
            master_key=self._master_key,
            priority=HIGH_PRIORITY,
        )

    def _outcome(
        self, bookie: BookieId, response: Response, entry_id: EntryId | None
    ) -> Entry | CoreError | None:
        """Return the entry, None when the bookie has none, or what went wrong."""
        if response.status in ABSENT:
            return None
        what = f"recovery read of ledger {self._ledger_id} at bookie {bookie}"
        error: CoreError
        if isinstance(response, ReadResponse) and response.status is StatusCode.EOK:
            try:
                return read_entry(response.body or b"", self._ledger_id, entry_id, self._digest)
            except DecodeError as problem:
                error = CorruptData(f"{what}: {problem}")
        else:
            error = error_of(response.status, what)
        logger.warning("recovery_read_failed %s", error)
        self._error = worse(self._error, error)
        return error

    def _failure(self, what: str) -> CoreError:
        kind = type(self._error) if self._error is not None else BookieUnavailable
        return kind(f"{what}: too few valid answers ({self._error})")
