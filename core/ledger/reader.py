"""Reads one ledger up to its last add confirmed.

Invariant: an entry is given out only when its digest is right and it is at or below the LAC. A
replica that fails, has nothing, or holds wrong bytes is passed over for the next one.
"""

import asyncio
import logging
from functools import partial

from core.errors import BookieUnavailable, CoreError, CorruptData, EntryNotFound
from core.ledger.batch_read import batch_client, read_in_batches
from core.ledger.bookie_client import ask_all
from core.ledger.bookie_registry import BookieRegistry
from core.ledger.metadata_update import LedgerNodes, StoredLedger
from core.ledger.outcomes import ABSENT, error_of, worse
from core.ledger.recovery import LacSearch
from core.ledger.schedule import Schedules
from core.metadata.ledger_metadata import LedgerMetadata
from protocol.bookkeeper.digest import Digest
from protocol.bookkeeper.entry import Entry, read_entry, read_lac
from protocol.bookkeeper.messages import (
    ReadLacRequest,
    ReadLacResponse,
    ReadRequest,
    ReadResponse,
    Response,
    StatusCode,
)
from protocol.errors import DecodeError
from protocol.ids import NO_ENTRY, BookieId, EntryId

logger = logging.getLogger(__name__)


class LedgerReader:
    """A view of one ledger, open or closed. It never fences and never writes."""

    def __init__(
        self, stored: StoredLedger, nodes: LedgerNodes, bookies: BookieRegistry, window: int = 32
    ) -> None:
        self.ledger_id = stored.ledger_id
        self._nodes = nodes
        self._bookies = bookies
        self._window = window
        self._digest = Digest(stored.metadata.digest, stored.metadata.password)
        self._last_confirmed = NO_ENTRY
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

    def note_confirmed(self, lac: EntryId) -> None:
        """Take somebody's word for a LAC (the writer of the same process); it never moves back."""
        if lac > self._last_confirmed and not self.is_closed:
            self._last_confirmed = lac

    async def read(self, first: EntryId, last: EntryId) -> list[Entry]:
        """Return the entries from `first` to `last`, inclusive.

        Shape: the caller bounds the range; payloads are views of what the bookies sent.
        Errors: EntryNotFound beyond the LAC; else when all replicas of an entry failed, the error
        that says most: CorruptData before BookieUnavailable before EntryNotFound.
        Cost: one round trip per `window` entries, or per batch of up to 5 MiB where the ledger is
        not striped and its bookies read batches.
        """
        if first < 0 or last > self._last_confirmed:
            raise EntryNotFound(
                f"entries {first}..{last} of ledger {self.ledger_id}, confirmed up to"
                f" {self._last_confirmed}"
            )
        if last < first:
            return []
        entries = await self._read_in_batches(first, last)
        if len(entries) <= last - first:
            entries += await _RangeRead(self, first + len(entries), last).start()
        self._nodes.metrics.reads_total += len(entries)
        self.note_confirmed(entries[-1].lac)
        return entries

    async def _read_in_batches(self, first: EntryId, last: EntryId) -> list[Entry]:
        client = batch_client(self._schedules, first, last, self._bookies.client)
        if client is None:
            return []
        return await read_in_batches(client, self.ledger_id, self._digest, first, last)

    async def read_last_confirmed(self) -> EntryId:
        """Ask the metadata and then the bookies how far the ledger is confirmed; return the LAC.

        Errors: BookieUnavailable when too few bookies answer; LedgerNotFound when it was deleted.
        Cost: one metadata read; for an open ledger also one request to each bookie of the ensemble.
        """
        self._install(await self._nodes.read(self.ledger_id))
        if not self.is_closed:
            self.note_confirmed(await self._search_lac())
        return self._last_confirmed

    def _install(self, stored: StoredLedger) -> None:
        metadata = stored.metadata
        self._stored = stored
        self._schedules = Schedules(metadata.fragments, metadata.write_quorum, metadata.ack_quorum)
        if metadata.is_closed:
            self._last_confirmed = metadata.last_entry_id

    async def _search_lac(self) -> EntryId:
        schedule = self._schedules.last
        search = LacSearch(schedule, self._schedules.last_first_entry_id - 1)
        clients = [self._bookies.client(bookie) for bookie in schedule.ensemble]
        answers = ask_all(clients, ReadLacRequest(self.ledger_id))
        while not search.is_covered:
            if search.is_hopeless:
                raise BookieUnavailable(f"too few bookies know the LAC of ledger {self.ledger_id}")
            bookie, response = await answers.get()
            self._count_lac(search, bookie, response)
        return search.lac

    def _count_lac(self, search: LacSearch, bookie: BookieId, response: Response) -> None:
        if response.status in ABSENT:
            search.on_answer(bookie, None)
        elif isinstance(response, ReadLacResponse) and response.status is StatusCode.EOK:
            try:
                search.on_answer(bookie, self._lac_of(response))
            except DecodeError as error:
                logger.warning("lac_corrupt ledger=%d bookie=%s %s", self.ledger_id, bookie, error)
                search.on_failure(bookie)
        else:
            search.on_failure(bookie)

    def _lac_of(self, response: ReadLacResponse) -> EntryId:
        lac = NO_ENTRY
        if response.lac_body:
            lac = read_lac(response.lac_body, self.ledger_id, self._digest)
        if response.last_entry_body:
            entry = read_entry(response.last_entry_body, self.ledger_id, None, self._digest)
            lac = max(lac, entry.lac)
        return lac


class _RangeRead:
    """One range being read: asks ahead within the window, one replica after the other per entry."""

    __slots__ = ("_entries", "_first", "_future", "_last", "_missing", "_next", "_reader")

    def __init__(self, reader: LedgerReader, first: EntryId, last: EntryId) -> None:
        self._reader = reader
        self._first = first
        self._last = last
        self._next = first
        self._missing = last - first + 1
        self._entries: list[Entry | None] = [None] * self._missing
        self._future: asyncio.Future[list[Entry]] = asyncio.get_running_loop().create_future()

    def start(self) -> "asyncio.Future[list[Entry]]":
        for _ in range(min(self._reader._window, self._missing)):
            self._ask_next()
        return self._future

    def _ask_next(self) -> None:
        if self._next <= self._last:
            entry_id, self._next = self._next, self._next + 1
            self._ask(entry_id, self._reader._schedules.of(entry_id).write_bookies(entry_id), None)

    def _ask(
        self, entry_id: EntryId, replicas: tuple[BookieId, ...], error: CoreError | None
    ) -> None:
        reader = self._reader
        request = ReadRequest(reader.ledger_id, entry_id)
        reply = partial(self._on_reply, entry_id, replicas, error)
        reader._bookies.client(replicas[0]).submit(request, reply)

    def _on_reply(
        self,
        entry_id: EntryId,
        replicas: tuple[BookieId, ...],
        error: CoreError | None,
        response: Response,
    ) -> None:
        if self._future.done():
            return  # failed or cancelled; late answers are normal
        outcome = self._entry_of(entry_id, replicas[0], response)
        if isinstance(outcome, CoreError):
            self._on_replica_failed(entry_id, replicas, worse(error, outcome))
            return
        self._entries[entry_id - self._first] = outcome
        self._missing -= 1
        if self._missing == 0:
            self._future.set_result([entry for entry in self._entries if entry is not None])
        else:
            self._ask_next()

    def _on_replica_failed(
        self, entry_id: EntryId, replicas: tuple[BookieId, ...], error: CoreError
    ) -> None:
        self._reader._nodes.metrics.replica_failures_total += 1
        if len(replicas) > 1:
            self._ask(entry_id, replicas[1:], error)
        else:
            self._future.set_exception(error)

    def _entry_of(
        self, entry_id: EntryId, bookie: BookieId, response: Response
    ) -> Entry | CoreError:
        reader = self._reader
        what = f"read {entry_id} of ledger {reader.ledger_id} at bookie {bookie}"
        if not isinstance(response, ReadResponse) or response.status is not StatusCode.EOK:
            return error_of(response.status, what)
        try:
            return read_entry(response.body or b"", reader.ledger_id, entry_id, reader._digest)
        except DecodeError as error:
            logger.warning("entry_corrupt bookie=%s %s", bookie, error)
            return CorruptData(f"{what}: {error}")
