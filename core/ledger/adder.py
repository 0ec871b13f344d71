"""Sends entries to their write sets and counts the answers: what writer and recovery share.

Invariant: entries are confirmed in order (`WriteQuorumTracker` decides); after the first error
nothing is confirmed any more and every later add raises the same error. What was not confirmed by
then is of unknown fate. A bookie that fails is the `FailureListener`'s matter; a bookie that
refuses the writer (fenced, wrong password) ends it.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Sequence
from functools import partial
from typing import Final, Protocol

from tailrace.core.errors import BookieUnavailable, CoreError, LogRecordTooLong
from tailrace.core.ledger.add_options import AddFailure, AddOptions, FailureListener
from tailrace.core.ledger.bookie_client import ask_all
from tailrace.core.ledger.bookie_registry import BookieRegistry
from tailrace.core.ledger.entry_limit import entry_limit_of
from tailrace.core.ledger.metadata_update import StoredLedger
from tailrace.core.ledger.metrics import LedgerMetrics
from tailrace.core.ledger.outcomes import UNRECOVERABLE_ADD, add_error_of, error_of
from tailrace.core.ledger.quorum import WriteQuorumTracker
from tailrace.core.ledger.schedule import Schedule
from tailrace.protocol.bookkeeper.digest import Digest, ledger_master_key
from tailrace.protocol.bookkeeper.entry import HEADER_SIZE, pack_entry, pack_lac
from tailrace.protocol.bookkeeper.messages import (
    HIGH_PRIORITY,
    AddRequest,
    ForceLedgerRequest,
    Response,
    StatusCode,
    WriteFlag,
    WriteLacRequest,
)
from tailrace.protocol.ids import NO_ENTRY, BookieId, Buffer, EntryId, LedgerId

logger = logging.getLogger(__name__)

RETRIES_MAX: Final = 14
"""How often an add is sent again to a bookie with too many requests; about 5 s in all."""
_RETRY_S: Final = 0.01
_RETRY_S_MAX: Final = 0.5
_PLAIN: Final = AddOptions()


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
        "_bookies", "_clients", "_digest", "_failing", "_flags", "_listener", "_losses",
        "_master_key", "_metrics", "_pending", "_priority", "_recovery", "_tracker", "_waiting",
        "confirmed_length", "error", "failures", "last_add_pushed", "ledger_id", "length",
        "payload_max", "told_lac",
    )  # fmt: skip

    failures: FailureListener
    """Set before the first add."""

    def __init__(
        self,
        stored: StoredLedger,
        bookies: BookieRegistry,
        listener: LedgerListener,
        metrics: LedgerMetrics,
        options: AddOptions = _PLAIN,
    ) -> None:
        metadata = stored.metadata
        self.ledger_id: LedgerId = stored.ledger_id
        self.last_add_pushed, self.length = options.recover_from or (NO_ENTRY, 0)
        self.confirmed_length = self.length
        self.error: CoreError | None = None
        self._listener = listener
        self._metrics = metrics
        self._digest = Digest(metadata.digest, metadata.password)
        self._master_key = ledger_master_key(metadata.password)
        self.payload_max = entry_limit_of(metadata.custom) - HEADER_SIZE - self._digest.size
        self._recovery = options.recover_from is not None
        self._priority = HIGH_PRIORITY if self._recovery else 0
        ensemble = metadata.fragments[-1].ensemble
        schedule = Schedule(ensemble, metadata.write_quorum, metadata.ack_quorum)
        self._tracker = WriteQuorumTracker(schedule, self.last_add_pushed, options.ack_rule)
        self._bookies = bookies
        self._clients = {bookie: bookies.client(bookie) for bookie in ensemble}
        self._flags = WriteFlag.DEFERRED_SYNC.value if options.deferred_sync else 0
        fixes_lac = self._recovery or options.deferred_sync
        self.told_lac: EntryId | None = self.last_add_pushed if fixes_lac else None
        """The LAC that entries tell instead of the confirmed one; None: that one.

        With deferred sync: what was forced. In recovery: what the writer confirmed, because until
        the end is fixed another recoverer may close the ledger before what this one adds again.
        """
        self._losses: list[int] = []
        """Of each bookie, before the first add that waits for a force."""
        self._pending: deque[tuple[int, AddRequest]] = deque()
        """(cumulative length, request) of each unconfirmed entry: another bookie may need it."""
        self._failing: set[BookieId] = set()
        self._waiting: asyncio.Future[None] | None = None

    @property
    def lac(self) -> EntryId:
        """Last add confirmed."""
        return self._tracker.lac

    @property
    def schedule(self) -> Schedule:
        """Which bookies entries go to now."""
        return self._tracker.schedule

    @property
    def ensemble(self) -> tuple[BookieId, ...]:
        """The bookies that entries go to now."""
        return self._tracker.schedule.ensemble

    @property
    def is_stuck(self) -> bool:
        """Whether an entry waits that cannot reach Qa with the present ensemble."""
        return self._tracker.is_stuck()

    @property
    def unconfirmed_entries(self) -> int:
        """How many entries were pushed and not confirmed."""
        return len(self._pending)

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
        if size > self.payload_max:
            raise LogRecordTooLong(f"entry of {size} bytes, at most {self.payload_max} fit")
        tracker = self._tracker
        self.last_add_pushed = entry_id = self.last_add_pushed + 1
        self.length = length = self.length + size
        lac = tracker.lac if self.told_lac is None else self._fixed_lac(entry_id)
        body = pack_entry(self.ledger_id, entry_id, lac, length, payload, self._digest)
        request = AddRequest(
            self.ledger_id, entry_id, self._master_key, body,
            self._recovery, self._flags, self._priority,
        )  # fmt: skip
        self._pending.append((length, request))
        for bookie in tracker.begin_add(entry_id):
            self._clients[bookie].submit(request, partial(self._on_reply, request, bookie, 0))
        metrics = self._metrics
        metrics.adds_total += 1
        metrics.add_bytes_total += size
        return entry_id

    def freeze(self) -> None:
        """Confirm nothing until `install`: the place of the entries above the LAC is changing."""
        self._tracker.freeze()

    def failed_bookies(self) -> tuple[BookieId, ...]:
        """Return the bookies of the ensemble that failed an entry which still waits, in order."""
        return self._tracker.failed_bookies()

    def install(self, ensemble: tuple[BookieId, ...]) -> None:
        """Use this ensemble from the entry behind the LAC on, and confirm again.

        What its new bookies should have of the unconfirmed entries is sent to them, also of those
        that have their quorum without. Answers of bookies that are not in it any more count no
        longer, also those that came before.
        """
        tracker = self._tracker
        before = tracker.schedule
        schedule = Schedule(ensemble, before.write_quorum, before.ack_quorum)
        self._clients = {bookie: self._bookies.client(bookie) for bookie in ensemble}
        self._failing.intersection_update(ensemble)
        for _, request in self._pending:
            known = before.write_bookies(request.entry_id)
            for bookie in schedule.write_bookies(request.entry_id):
                if bookie not in known:
                    self._send(request, bookie, 0)
        confirmed = tracker.on_ensemble_changed(schedule)
        for _ in confirmed:
            self.confirmed_length = self._pending.popleft()[0]
        if confirmed:
            self._tell(confirmed[-1])

    async def drained(self) -> None:
        """Wait until everything pushed is confirmed. Errors: the sticky error."""
        while self._pending and self.error is None:
            await self._moved()
        if self.error is not None:
            raise self.error.with_traceback(None)

    async def reached(self, entry_id: EntryId) -> None:
        """Wait until this entry is confirmed. Errors: the sticky error, if that came first."""
        while self.lac < entry_id:
            if self.error is not None:
                raise self.error.with_traceback(None)
            await self._moved()

    def send_lac(self, lac: EntryId) -> None:
        """Tell the write set of entry `lac` that it is confirmed; nobody waits for the answers."""
        packet = pack_lac(self.ledger_id, lac, self._digest)
        request = WriteLacRequest(self.ledger_id, lac, self._master_key, packet)
        self._metrics.explicit_lacs_total += 1
        for bookie in self.schedule.write_bookies(lac):
            self._clients[bookie].submit(request, _ignore)

    async def force(self) -> None:
        """Make all bookies of the ensemble sync what they answered.

        Errors: the first bookie's that did not; what it holds of the ledger may not be on its disk.
        With deferred sync the ledger fails when contact with a bookie was lost since it answered an
        add that waits: it may have restarted without it, and forces whatever it has.
        """
        self._metrics.forces_total += 1
        is_awaited = bool(self._flags) and self.told_lac != self.lac
        answers = ask_all(list(self._clients.values()), ForceLedgerRequest(self.ledger_id))
        for _ in range(len(self._clients)):
            bookie, response = await answers.get()
            if response.status is not StatusCode.EOK:
                raise error_of(response.status, f"force ledger {self.ledger_id} at {bookie}")
        if is_awaited and self._losses != self._count_losses():
            what = f"a bookie of ledger {self.ledger_id} was lost before it synced what it answered"
            self.fail(BookieUnavailable(what))

    def fail(self, error: CoreError) -> None:
        """Stop for good; the first error counts."""
        if self.error is not None:
            return
        self.error = error
        self._metrics.failed_writers_total += 1
        self._wake()
        self._listener.on_failed(error)

    def _fixed_lac(self, entry_id: EntryId) -> EntryId:
        """Return the LAC that an entry tells when that is not the confirmed one."""
        assert self.told_lac is not None
        if self._flags and entry_id == self.told_lac + 1:
            self._losses = self._count_losses()
        return self.told_lac

    def _count_losses(self) -> list[int]:
        return [client.losses for client in self._clients.values()]

    def _on_reply(
        self, request: AddRequest, bookie: BookieId, retries: int, response: Response
    ) -> None:
        if response.status is not StatusCode.EOK:
            self._on_add_failed(request, bookie, retries, response.status)
            return
        if self.error is not None:
            return  # the LAC stands where the listener last heard of it
        confirmed = self._tracker.on_ack(request.entry_id, bookie)
        if not confirmed:
            return
        pending = self._pending
        for _ in confirmed:
            self.confirmed_length = pending.popleft()[0]
        self._tell(confirmed[-1])

    def _tell(self, lac: EntryId) -> None:
        if self._waiting is not None:
            self._wake()
        self._listener.on_confirmed(lac)

    def _on_add_failed(
        self, request: AddRequest, bookie: BookieId, retries: int, status: StatusCode
    ) -> None:
        if self.error is not None:
            return
        self._metrics.add_failures_total += 1
        if status is StatusCode.ETOOMANYREQUESTS and retries < RETRIES_MAX:
            self._retry_later(request, bookie, retries + 1)
            return
        self._on_bookie_failed(request.entry_id, bookie, status)

    def _on_bookie_failed(self, entry_id: EntryId, bookie: BookieId, status: StatusCode) -> None:
        if status not in UNRECOVERABLE_ADD and bookie not in self._clients:
            return  # it was replaced, and nothing depends on it any more
        stuck = self._tracker.on_failure(entry_id, bookie)
        if stuck or bookie not in self._failing:  # one line for a bookie, not one per entry
            self._failing.add(bookie)
            logger.warning(
                "add_failed ledger=%d entry=%d bookie=%s status=%s lac=%d stuck=%s",
                self.ledger_id, entry_id, bookie, status.name, self.lac, stuck,
            )  # fmt: skip
        error = add_error_of(status, f"add {entry_id} to ledger {self.ledger_id} at {bookie}")
        if status in UNRECOVERABLE_ADD:
            self.fail(error)
        else:
            self.failures.on_add_failed(AddFailure(entry_id, bookie, status, stuck, error))

    def _retry_later(self, request: AddRequest, bookie: BookieId, retries: int) -> None:
        """Send it again: the bookie said that it did nothing, and that it will have room."""
        delay_s = min(_RETRY_S * 2 ** (retries - 1), _RETRY_S_MAX)
        asyncio.get_running_loop().call_later(delay_s, self._resend, request, bookie, retries)

    def _resend(self, request: AddRequest, bookie: BookieId, retries: int) -> None:
        if self.error is None and bookie in self._clients:
            self._metrics.add_retries_total += 1
            self._send(request, bookie, retries)

    def _send(self, request: AddRequest, bookie: BookieId, retries: int) -> None:
        reply = partial(self._on_reply, request, bookie, retries)
        self._clients[bookie].submit(request, reply)

    async def _moved(self) -> None:
        """Wait until something was confirmed or failed."""
        if self._waiting is None or self._waiting.done():
            self._waiting = asyncio.get_running_loop().create_future()
        await asyncio.wait([self._waiting])

    def _wake(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)


def _ignore(response: Response) -> None:
    """Whatever became of it, nothing depends on it."""
