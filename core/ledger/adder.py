"""Sends entries to their write sets and counts the answers: what writer and recovery share.

Invariant: entries are confirmed in order (`WriteQuorumTracker` decides); after the first failure
nothing is confirmed any more and every later add raises the same error. What was not confirmed by
then is of unknown fate.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Sequence
from functools import partial
from typing import Final, Protocol

from core.errors import CoreError, LogRecordTooLong
from core.ledger.bookie_registry import BookieRegistry
from core.ledger.metadata_update import StoredLedger
from core.ledger.metrics import LedgerMetrics
from core.ledger.outcomes import UNRECOVERABLE_ADD, add_error_of
from core.ledger.quorum import WriteQuorumTracker
from core.ledger.schedule import Schedule
from protocol.bookkeeper.digest import Digest, ledger_master_key
from protocol.bookkeeper.entry import HEADER_SIZE, MAX_ENTRY_BYTES, pack_entry
from protocol.bookkeeper.messages import HIGH_PRIORITY, AddRequest, Response, StatusCode
from protocol.ids import NO_ENTRY, BookieId, Buffer, EntryId, LedgerId

logger = logging.getLogger(__name__)

RETRIES_MAX: Final = 14
"""How often an add is sent again to a bookie with too many requests; about 5 s in all."""
_RETRY_S: Final = 0.01
_RETRY_S_MAX: Final = 0.5


class LedgerListener(Protocol):
    """Who owns a ledger's adds. Called on the loop."""

    def on_confirmed(self, lac: EntryId) -> None:
        """Take note that all entries up to `lac`, inclusive, are safe at an ack quorum."""

    def on_failed(self, error: CoreError) -> None:
        """Take note, once, that nothing more will be confirmed.

        Unanswered adds are of unknown fate. LedgerFenced: somebody else recovers the ledger.
        """


class EntryAdder:
    """The adds of one ledger, from a given end on. Not closed: it owns nothing but its counts.

    Shape: `lac` is inclusive; `length` counts payload bytes up to `last_add_pushed`, and
    `confirmed_length` up to `lac`.
    """

    __slots__ = (
        "_clients", "_digest", "_drained", "_failing", "_lengths", "_listener", "_master_key",
        "_metrics", "_payload_max", "_priority", "_recovery", "_tracker", "confirmed_length",
        "error", "last_add_pushed", "ledger_id", "length",
    )  # fmt: skip

    def __init__(
        self,
        stored: StoredLedger,
        bookies: BookieRegistry,
        listener: LedgerListener,
        metrics: LedgerMetrics,
        *,
        recover_from: tuple[EntryId, int] | None = None,
    ) -> None:
        """`recover_from`: (last entry, length) that recovery found confirmed; passes the fence."""
        metadata = stored.metadata
        self.ledger_id: LedgerId = stored.ledger_id
        self.last_add_pushed, self.length = recover_from or (NO_ENTRY, 0)
        self.confirmed_length = self.length
        self.error: CoreError | None = None
        self._listener = listener
        self._metrics = metrics
        self._digest = Digest(metadata.digest, metadata.password)
        self._master_key = ledger_master_key(metadata.password)
        self._payload_max = MAX_ENTRY_BYTES - HEADER_SIZE - self._digest.size
        self._recovery = recover_from is not None
        self._priority = HIGH_PRIORITY if self._recovery else 0
        ensemble = metadata.fragments[-1].ensemble
        schedule = Schedule(ensemble, metadata.write_quorum, metadata.ack_quorum)
        self._tracker = WriteQuorumTracker(schedule, self.last_add_pushed)
        self._clients = {bookie: bookies.client(bookie) for bookie in ensemble}
        self._lengths: deque[int] = deque()  # cumulative length at each unconfirmed entry
        self._failing: set[BookieId] = set()
        self._drained: asyncio.Future[None] | None = None

    @property
    def lac(self) -> EntryId:
        """Last add confirmed."""
        return self._tracker.lac

    @property
    def unconfirmed_entries(self) -> int:
        """How many entries were pushed and not confirmed."""
        return len(self._lengths)

    @property
    def unconfirmed_bytes(self) -> int:
        """Payload bytes of these entries."""
        return self.length - self.confirmed_length

    def add(self, payload: Sequence[Buffer]) -> EntryId:
        """Send the next entry and return its id; order is the order of the calls.

        The parts are neither copied nor joined and must not change until the entry is confirmed.
        Errors: the sticky error after a failure; LogRecordTooLong, with nothing sent.
        Cost: the digest over the payload, one request per bookie of the write set.
        """
        error = self.error
        if error is not None:
            raise error.with_traceback(None)
        size = 0
        for part in payload:
            size += len(part)
        if size > self._payload_max:
            raise LogRecordTooLong(f"entry of {size} bytes, at most {self._payload_max} fit")
        tracker = self._tracker
        self.last_add_pushed = entry_id = self.last_add_pushed + 1
        self.length = length = self.length + size
        self._lengths.append(length)
        body = pack_entry(self.ledger_id, entry_id, tracker.lac, length, payload, self._digest)
        request = AddRequest(
            self.ledger_id, entry_id, self._master_key, body, self._recovery, 0, self._priority
        )
        for bookie in tracker.begin_add(entry_id):
            self._clients[bookie].submit(request, partial(self._on_reply, request, bookie, 0))
        metrics = self._metrics
        metrics.adds_total += 1
        metrics.add_bytes_total += size
        return entry_id

    async def drained(self) -> None:
        """Wait until everything pushed is confirmed. Errors: the sticky error."""
        while self._lengths and self.error is None:
            if self._drained is None or self._drained.done():
                self._drained = asyncio.get_running_loop().create_future()
            await asyncio.wait([self._drained])
        if self.error is not None:
            raise self.error.with_traceback(None)

    def fail(self, error: CoreError) -> None:
        """Stop for good; the first error counts."""
        if self.error is not None:
            return
        self.error = error
        self._metrics.failed_writers_total += 1
        self._wake()
        self._listener.on_failed(error)

    def _on_reply(
        self, request: AddRequest, bookie: BookieId, retries: int, response: Response
    ) -> None:
        if response.status is not StatusCode.EOK:
            self._on_add_failed(request, bookie, retries, response.status)
            return
        confirmed = self._tracker.on_ack(request.entry_id, bookie)
        if not confirmed or self.error is not None:
            return
        lengths = self._lengths
        for _ in confirmed:
            self.confirmed_length = lengths.popleft()
        if self._drained is not None and not lengths:
            self._wake()
        self._listener.on_confirmed(confirmed[-1])

    def _on_add_failed(
        self, request: AddRequest, bookie: BookieId, retries: int, status: StatusCode
    ) -> None:
        if self.error is not None:
            return
        self._metrics.add_failures_total += 1
        if status is StatusCode.ETOOMANYREQUESTS and retries < RETRIES_MAX:
            self._retry_later(request, bookie, retries + 1)
            return
        entry_id = request.entry_id
        hopeless = self._tracker.on_failure(entry_id, bookie) or status in UNRECOVERABLE_ADD
        if hopeless or bookie not in self._failing:  # one line for a bookie, not one per entry
            self._failing.add(bookie)
            logger.warning(
                "add_failed ledger=%d entry=%d bookie=%s status=%s lac=%d writer_fails=%s",
                self.ledger_id, entry_id, bookie, status.name, self.lac, hopeless,
            )  # fmt: skip
        if hopeless:
            what = f"add {entry_id} to ledger {self.ledger_id} at bookie {bookie}"
            self.fail(add_error_of(status, what))

    def _retry_later(self, request: AddRequest, bookie: BookieId, retries: int) -> None:
        """Send it again: the bookie said that it did nothing, and that it will have room."""
        delay_s = min(_RETRY_S * 2 ** (retries - 1), _RETRY_S_MAX)
        asyncio.get_running_loop().call_later(delay_s, self._resend, request, bookie, retries)

    def _resend(self, request: AddRequest, bookie: BookieId, retries: int) -> None:
        if self.error is None:
            self._metrics.add_retries_total += 1
            reply = partial(self._on_reply, request, bookie, retries)
            self._clients[bookie].submit(request, reply)

    def _wake(self) -> None:
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)
