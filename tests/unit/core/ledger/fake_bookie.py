"""A bookie in memory: what the protocol promises, and faults on demand.

It answers on the next turn of the loop, in order; `hold()` keeps answers back until `release()`.
Verified by the same contract class that the real bookie passes (`bookie_contract.py`).
"""

import asyncio
from collections.abc import Callable
from typing import Final

from tailrace.protocol.bookkeeper.entry import HEADER_SIZE, read_ids
from tailrace.protocol.bookkeeper.messages import (
    LAST_ENTRY,
    AddRequest,
    AddResponse,
    BatchReadRequest,
    BatchReadResponse,
    BookieInfoRequest,
    BookieInfoResponse,
    ErrorResponse,
    ForceLedgerRequest,
    ForceLedgerResponse,
    ReadLacRequest,
    ReadLacResponse,
    ReadRequest,
    ReadResponse,
    Request,
    Response,
    StatusCode,
    WriteFlag,
    WriteLacRequest,
    WriteLacResponse,
    operation_of,
)
from tailrace.protocol.ids import NO_ENTRY, BookieId, EntryId, LedgerId

Reply = Callable[[Response], None]
Fault = Callable[[Request], StatusCode | None]
"""Says what goes wrong with a request; None: nothing."""


def no_fault(request: Request) -> StatusCode | None:
    return None


class FakeLedger:
    def __init__(self, master_key: bytes) -> None:
        self.master_key = master_key
        self.entries: dict[EntryId, bytes] = {}
        self.unsynced: set[EntryId] = set()
        self.fenced = False
        self.explicit_lac: bytes | None = None
        self.lac = NO_ENTRY

    @property
    def last_entry(self) -> EntryId:
        return max(self.entries, default=NO_ENTRY)


class FakeBookie:
    def __init__(self, bookie_id: str) -> None:
        self.bookie_id = BookieId(bookie_id)
        self.ledgers: dict[LedgerId, FakeLedger] = {}
        self.fault: Fault = no_fault
        """A LOCAL_* status is answered before the bookie sees the request."""
        self.lost_answer: Fault = no_fault
        """A LOCAL_* status replaces the answer after the bookie did what was asked."""
        self.requests: list[Request] = []
        self.closed = False
        self.reads_batches = False
        self.losses = 0
        self.batch_bytes_max = 1 << 20
        self.free_disk: int | None = None
        self._held: list[Callable[[], None]] | None = None
        self._waiting: dict[int, tuple[ReadRequest, Reply, asyncio.TimerHandle]] = {}

    def submit(self, request: Request, reply: Reply) -> None:
        assert not self.closed
        self.requests.append(request)
        asyncio.get_running_loop().call_soon(self._arrive, request, reply)

    async def close(self) -> None:
        self.closed = True

    def hold(self) -> None:
        """Serve nothing until `release`."""
        self._held = []

    def release(self, count: int | None = None) -> None:
        """Serve what was held, or only the first `count` of it and go on holding."""
        held = self._held or []
        self._held = held[count:] if count is not None else None
        for serve in held[:count]:
            serve()

    @property
    def held_count(self) -> int:
        return len(self._held or [])

    def crash(self) -> None:
        """Lose what was not synced, and be back at once."""
        self.losses += 1
        for ledger in self.ledgers.values():
            for entry_id in ledger.unsynced:
                del ledger.entries[entry_id]
            ledger.unsynced.clear()

    def _arrive(self, request: Request, reply: Reply) -> None:
        if self._held is not None:
            self._held.append(lambda: self._answer(request, reply))
        else:
            self._answer(request, reply)

    def _answer(self, request: Request, reply: Reply) -> None:
        fault = self.fault(request)
        if fault is not None:
            reply(ErrorResponse(fault, operation_of(request)))
            return
        if isinstance(request, ReadRequest) and self._waits(request, reply):
            return
        self._reply(request, reply, self._serve(request))
        self._wake()

    def _reply(self, request: Request, reply: Reply, response: Response) -> None:
        lost = self.lost_answer(request)
        reply(ErrorResponse(lost, operation_of(request)) if lost is not None else response)

    def _waits(self, request: ReadRequest, reply: Reply) -> bool:
        """Keep a long poll until its ledger has news or its time is up; False: answer it now."""
        if request.previous_lac is None or request.timeout_ms is None or request.fence:
            return False
        ledger = self.ledgers.get(request.ledger_id)
        if ledger is None or self._has_news(ledger, request):
            return False
        loop = asyncio.get_running_loop()
        timer = loop.call_later(request.timeout_ms / 1000, self._give_up, request)
        self._waiting[id(request)] = (request, reply, timer)
        return True

    def _has_news(self, ledger: FakeLedger, request: ReadRequest) -> bool:
        assert request.previous_lac is not None
        return ledger.lac > request.previous_lac or ledger.fenced

    def _wake(self) -> None:
        for key, (request, reply, timer) in list(self._waiting.items()):
            if self._has_news(self.ledgers[request.ledger_id], request):
                del self._waiting[key]
                timer.cancel()
                self._reply(request, reply, self._serve(request))

    def _give_up(self, request: ReadRequest) -> None:
        _, reply, _ = self._waiting.pop(id(request))
        if self._held is not None:
            self._held.append(lambda: self._reply(request, reply, self._serve(request)))
        else:
            self._reply(request, reply, self._serve(request))

    def _serve(self, request: Request) -> Response:
        served_by: dict[type, Callable[..., Response]] = {
            AddRequest: self._add,
            ReadRequest: self._read_or_fence,
            BatchReadRequest: self._read_batch,
            ReadLacRequest: self._read_lac,
            WriteLacRequest: self._write_lac,
            ForceLedgerRequest: self._force,
            BookieInfoRequest: self._info,
        }
        if type(request) in served_by:
            return served_by[type(request)](request)
        return ErrorResponse(StatusCode.EBADREQ, operation_of(request))

    def _info(self, request: BookieInfoRequest) -> Response:
        return BookieInfoResponse(StatusCode.EOK, None, self.free_disk)

    def _read_or_fence(self, request: ReadRequest) -> Response:
        return self._fence(request) if request.fence else self._read(request)

    def _add(self, request: AddRequest) -> Response:
        body = b"".join(request.body)
        ledger_id, entry_id = read_ids(body)
        ledger = self.ledgers.setdefault(ledger_id, FakeLedger(request.master_key))
        status = StatusCode.EOK
        if ledger.master_key != request.master_key:
            status = StatusCode.EUA
        elif ledger.fenced and not request.recovery:
            status = StatusCode.EFENCED
        else:
            ledger.entries[entry_id] = body
            if request.write_flags & WriteFlag.DEFERRED_SYNC:
                ledger.unsynced.add(entry_id)
            else:
                ledger.unsynced.discard(entry_id)
            ledger.lac = max(ledger.lac, int.from_bytes(body[16:24], "big", signed=True))
        return AddResponse(status, ledger_id, entry_id)

    def _fence(self, request: ReadRequest) -> Response:
        ledger_id, entry_id = request.ledger_id, request.entry_id
        if not request.master_key:
            return ReadResponse(StatusCode.EUA, ledger_id, entry_id)
        ledger = self.ledgers.setdefault(ledger_id, FakeLedger(request.master_key))
        if ledger.master_key != request.master_key:
            return ReadResponse(StatusCode.EUA, ledger_id, entry_id)
        ledger.fenced = True
        return self._entry(ledger, request, None)

    def _read(self, request: ReadRequest) -> Response:
        ledger = self.ledgers.get(request.ledger_id)
        if ledger is None:
            return ReadResponse(StatusCode.ENOLEDGER, request.ledger_id, request.entry_id)
        if not request.piggyback:
            return self._entry(ledger, request, ledger.lac)
        assert request.previous_lac is not None
        if request.entry_id != LAST_ENTRY:
            return ReadResponse(StatusCode.EBADREQ, request.ledger_id, request.entry_id)
        entry_id = request.previous_lac + 1
        body = ledger.entries.get(entry_id) if ledger.lac >= entry_id else None
        told = LAST_ENTRY if body is None else entry_id
        return ReadResponse(StatusCode.EOK, request.ledger_id, told, body, ledger.lac)

    def _entry(
        self, ledger: FakeLedger, request: ReadRequest, max_lac: EntryId | None
    ) -> ReadResponse:
        entry_id = request.entry_id if request.entry_id >= 0 else ledger.last_entry
        body = ledger.entries.get(entry_id)
        if body is None:
            return ReadResponse(StatusCode.ENOENTRY, request.ledger_id, request.entry_id)
        return ReadResponse(StatusCode.EOK, request.ledger_id, request.entry_id, body, max_lac)

    def _read_batch(self, request: BatchReadRequest) -> Response:
        ledger = self.ledgers.get(request.ledger_id)
        entries = ledger.entries if ledger else {}
        bodies: list[bytes] = []
        for entry_id in range(request.entry_id, request.entry_id + request.count_max):
            body = entries.get(entry_id)
            if body is None or (bodies and sum(map(len, bodies)) > self.batch_bytes_max):
                break
            bodies.append(body)
        status = StatusCode.EOK if bodies else StatusCode.ENOENTRY
        if ledger is None:
            status = StatusCode.ENOLEDGER
        return BatchReadResponse(status, request.ledger_id, request.entry_id, tuple(bodies))

    def _read_lac(self, request: ReadLacRequest) -> Response:
        ledger = self.ledgers.get(request.ledger_id)
        last = ledger.entries.get(ledger.last_entry) if ledger else None
        explicit = ledger.explicit_lac if ledger else None
        if last is None and explicit is None:
            return ReadLacResponse(StatusCode.ENOENTRY, request.ledger_id)
        return ReadLacResponse(StatusCode.EOK, request.ledger_id, explicit, last)

    def _write_lac(self, request: WriteLacRequest) -> Response:
        ledger = self.ledgers.setdefault(request.ledger_id, FakeLedger(request.master_key))
        if ledger.master_key != request.master_key:
            return WriteLacResponse(StatusCode.EUA, request.ledger_id)
        ledger.explicit_lac = bytes(request.body)
        ledger.lac = max(ledger.lac, request.lac)
        return WriteLacResponse(StatusCode.EOK, request.ledger_id)

    def _force(self, request: ForceLedgerRequest) -> Response:
        if request.ledger_id in self.ledgers:
            self.ledgers[request.ledger_id].unsynced.clear()
        return ForceLedgerResponse(StatusCode.EOK, request.ledger_id)

    def flip_bit(self, ledger_id: LedgerId, entry_id: EntryId) -> None:
        """Spoil a stored entry's payload or digest, as a bad disk would."""
        body = bytearray(self.ledgers[ledger_id].entries[entry_id])
        body[-1 if len(body) > HEADER_SIZE else 0] ^= 1
        self.ledgers[ledger_id].entries[entry_id] = bytes(body)


DOWN: Final[Fault] = lambda request: StatusCode.LOCAL_UNAVAILABLE  # noqa: E731 - a constant
SILENT: Final[Fault] = lambda request: StatusCode.LOCAL_TIMEOUT  # noqa: E731 - a constant
