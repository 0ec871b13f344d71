"""Reads of entries that are there: plain, of a fenced ledger, of LACs, of lists of entries."""

import asyncio
import functools
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tailrace.bookie.errors import status_of
from tailrace.bookie.ledger_state import LedgerState
from tailrace.bookie.storage import Storage
from tailrace.core.errors import CorruptData
from tailrace.protocol.bookkeeper.availability import encode_availability
from tailrace.protocol.bookkeeper.messages import (
    LAST_ENTRY,
    ListEntriesRequest,
    ListEntriesResponse,
    ReadLacRequest,
    ReadLacResponse,
    ReadRequest,
    ReadResponse,
    Response,
    StatusCode,
)
from tailrace.protocol.ids import Buffer, EntryId

if TYPE_CHECKING:
    from tailrace.bookie.entry_judge import EntryJudge

logger = logging.getLogger(__name__)

Reply = Callable[[Any], Any]
Then = Callable[[bytes | Exception | None], None]
ThenBatch = Callable[[list[Buffer] | Exception], None]


class Reads:
    """Reads through the storage, with a bound on how many wait."""

    def __init__(
        self, storage: Storage, pending_max: int, answer: Callable[[Reply, Response], None]
    ) -> None:
        self._storage = storage
        self._loop = asyncio.get_running_loop()
        self.metrics = storage.metrics
        self._pending_max = pending_max
        self._answer = answer
        self.judge: EntryJudge | None = None
        """Verifies what is given out; None: whoever asks verifies it himself."""

    def read(self, state: LedgerState | None, request: ReadRequest, reply: Reply) -> None:
        """Answer a plain read: the body and the LAC known here."""
        if state is None:
            self.refuse(request, reply, StatusCode.ENOLEDGER)
        else:
            self._read_and_answer(state, request, reply, with_lac=True)

    def read_fenced(self, state: LedgerState, request: ReadRequest, reply: Reply) -> None:
        """Answer a fence read once the fence is durable: no LAC in it."""
        self._read_and_answer(state, request, reply, with_lac=False)

    def refuse(self, request: ReadRequest, reply: Reply, status: StatusCode) -> None:
        """Answer a read with a status only."""
        self._answer(reply, ReadResponse(status, request.ledger_id, request.entry_id))

    def fetch(self, state: LedgerState, entry_id: EntryId, then: Then) -> bool:
        """Read one entry (LAST_ENTRY: the highest); False if too many reads wait already."""
        if self.metrics.pending_reads >= self._pending_max:
            self.metrics.reads_refused_total += 1
            return False
        self.metrics.pending_reads += 1
        if entry_id == LAST_ENTRY:
            entry_id = state.last_entry
            if not state.is_last_known:
                self._loop.call_soon(self._fetched, state, then, _unknown_last(state))
                return True
        self._storage.read(state, entry_id, functools.partial(self._fetched, state, then))
        return True

    def fetch_batch(
        self, state: LedgerState, first: EntryId, count_max: int, bytes_max: int, then: ThenBatch
    ) -> bool:
        """Read entries that follow each other (LAST_ENTRY: only the highest).

        False if too many reads wait already.
        """
        if self.metrics.pending_reads >= self._pending_max:
            self.metrics.reads_refused_total += 1
            return False
        self.metrics.pending_reads += 1
        if first == LAST_ENTRY:
            first, count_max = state.last_entry, 1
            if not state.is_last_known:
                self._loop.call_soon(self._fetched_batch, state, then, _unknown_last(state))
                return True
        came = functools.partial(self._fetched_batch, state, then)
        self._storage.read_batch(state, first, count_max, bytes_max, came)
        return True

    def read_lac(self, state: LedgerState | None, request: ReadLacRequest, reply: Reply) -> None:
        """Answer with the explicit LAC and the last entry; ENOENTRY if there is neither."""
        ledger_id = request.ledger_id
        if state is None:
            self._answer(reply, ReadLacResponse(StatusCode.ENOENTRY, ledger_id))
            return
        packet = state.explicit_lac or None

        def then(body: bytes | Exception | None) -> None:
            if isinstance(body, Exception):
                reply(ReadLacResponse(status_of(body), ledger_id))
            elif body is None and packet is None:
                reply(ReadLacResponse(StatusCode.ENOENTRY, ledger_id))
            else:
                reply(ReadLacResponse(StatusCode.EOK, ledger_id, packet, body))

        if not self.fetch(state, LAST_ENTRY, then):
            self._answer(reply, ReadLacResponse(StatusCode.ETOOMANYREQUESTS, ledger_id))

    def list_entries(
        self, state: LedgerState | None, request: ListEntriesRequest, reply: Reply
    ) -> None:
        """Answer with the ids of all entries."""
        ledger_id = request.ledger_id
        if state is None:
            self._answer(reply, ListEntriesResponse(StatusCode.ENOLEDGER, ledger_id))
            return

        def then(ids: list[EntryId] | Exception) -> None:
            if isinstance(ids, Exception):
                reply(ListEntriesResponse(status_of(ids), ledger_id))
            else:
                availability = encode_availability(ids)
                reply(ListEntriesResponse(StatusCode.EOK, ledger_id, availability))

        self._storage.list_entries(state, then)

    def _fetched(self, state: LedgerState, then: Then, body: bytes | Exception | None) -> None:
        if self.judge is None or body is None or isinstance(body, Exception):
            self._give(then, body)
            return
        self.judge.judge(state.ledger_id, body, lambda damage: self._give(then, damage or body))

    def _give(self, then: Then, body: bytes | Exception | None) -> None:
        self.metrics.pending_reads -= 1
        self.metrics.reads_total += 1
        if isinstance(body, Exception):
            self._count_damage(body)
        then(body)

    def _fetched_batch(
        self, state: LedgerState, then: ThenBatch, bodies: list[Buffer] | Exception
    ) -> None:
        if self.judge is None or isinstance(bodies, Exception):
            self._give_batch(then, bodies)
            return
        self.judge.judge_all(
            state.ledger_id,
            bodies,
            lambda damages: self._give_batch(then, _up_to_damage(bodies, damages)),
        )

    def _give_batch(self, then: ThenBatch, bodies: list[Buffer] | Exception) -> None:
        self.metrics.pending_reads -= 1
        if isinstance(bodies, Exception):
            self.metrics.reads_total += 1
            self._count_damage(bodies)
        else:
            self.metrics.reads_total += max(1, len(bodies))
        then(bodies)

    def _count_damage(self, error: Exception) -> None:
        if status_of(error) is StatusCode.EIO:
            self.metrics.reads_damaged_total += 1
        else:
            self.metrics.reads_refused_total += 1
        logger.error("read_failed error=%s", error)

    def _read_and_answer(
        self, state: LedgerState, request: ReadRequest, reply: Reply, *, with_lac: bool
    ) -> None:
        def then(body: bytes | Exception | None) -> None:
            reply(_response(state, request, body, with_lac=with_lac))

        if not self.fetch(state, request.entry_id, then):
            self.refuse(request, reply, StatusCode.ETOOMANYREQUESTS)


def _unknown_last(state: LedgerState) -> CorruptData:
    return CorruptData(
        f"ledger={state.ledger_id}: which entry is the last is not known, its index is damaged"
    )


def _up_to_damage(
    bodies: list[Buffer], damages: list[CorruptData | None]
) -> list[Buffer] | CorruptData:
    """Return the bodies before the first damaged one; the damage if that is the first of all."""
    for number, damage in enumerate(damages):
        if damage is not None:
            return bodies[:number] or damage
    return bodies


def _response(
    state: LedgerState, request: ReadRequest, body: bytes | Exception | None, *, with_lac: bool
) -> ReadResponse:
    ledger_id, entry_id = request.ledger_id, request.entry_id
    if body is None:
        return ReadResponse(StatusCode.ENOENTRY, ledger_id, entry_id)
    if isinstance(body, Exception):
        return ReadResponse(status_of(body), ledger_id, entry_id)
    lac = state.lac if with_lac else None
    return ReadResponse(StatusCode.EOK, ledger_id, entry_id, body, lac)
