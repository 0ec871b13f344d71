"""What a bookie answers: one method for each request, BookKeeper's rules, no sockets.

`submit` never waits and never raises for what a peer did; each reply comes once, on the loop, and
never before `submit` has returned. Adds of one ledger are stored in the order they were submitted.

Kept rules: the master key of the first add or fence owns the ledger; a fenced ledger takes only
recovery adds; adding an entry again is accepted (the last one written is read); any order of ids.
Beyond Java's: a recovery add of what is here already succeeds without room (`held.py`).
Stricter than Java: a fence is durable before any answer to it, and the body's ids must be the
request's. DEFERRED_SYNC adds are synced like all others. Source: reference BookKeeper 1.6-1.8.
"""

import asyncio
import functools
import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from tailrace.bookie.batch_read import BatchReads
from tailrace.bookie.config import MIB, BookieConfig
from tailrace.bookie.disk_watch import in_all
from tailrace.bookie.errors import status_of
from tailrace.bookie.health import Health
from tailrace.bookie.held import is_held
from tailrace.bookie.index_format import ENTRY_ID_MAX, KEY_BYTES_MAX, PACKET_BYTES_MAX
from tailrace.bookie.ledger_state import LedgerState
from tailrace.bookie.long_poll import LongPolls
from tailrace.bookie.reads import Reads
from tailrace.bookie.storage import Storage
from tailrace.protocol.bookkeeper.messages import (
    AddRequest,
    AddResponse,
    AuthRequest,
    AuthResponse,
    BatchReadRequest,
    BookieInfo,
    BookieInfoRequest,
    BookieInfoResponse,
    ErrorResponse,
    ForceLedgerRequest,
    ForceLedgerResponse,
    ListEntriesRequest,
    ReadLacRequest,
    ReadRequest,
    Request,
    Response,
    StartTlsRequest,
    StatusCode,
    UnknownRequest,
    WriteLacRequest,
    WriteLacResponse,
    operation_of,
)
from tailrace.protocol.ids import LedgerId

if TYPE_CHECKING:
    from pathlib import Path

    from tailrace.core.runtime.files import Space

_HEAD = struct.Struct(">qqq")
_PACKET = struct.Struct(">qq")

_GONE = StatusCode.LOCAL_UNAVAILABLE

Reply: TypeAlias = Callable[[Any], Any]
"""Takes the request's response."""

Handler: TypeAlias = Callable[[LedgerState | None, Any, Reply], None]


class Bookie:
    """One bookie's requests over its storage. All calls from the loop it was opened on."""

    def __init__(self, config: BookieConfig, storage: Storage, health: Health) -> None:
        self._storage = storage
        self.health = health
        self._loop = asyncio.get_running_loop()
        self._ledgers = storage.ledgers
        self._pending_bytes_max = config.pending_bytes_max * MIB
        self._entry_bytes_max = config.entry_bytes_max
        self.metrics = storage.metrics
        self.failed = storage.failed
        """Has a result once nothing may be acknowledged any more: the process should end."""
        self._is_closed = False
        self._loading: dict[LedgerId, list[tuple[Handler, Any, Reply]]] = {}
        reads = Reads(storage, config.pending_reads_max, self._answer)
        polls = LongPolls(reads, config.long_polls_max, self._answer)
        self._polls = polls
        self._reads = reads
        self._batches = BatchReads(reads, config.batch_read_bytes_max, self._answer)
        self._of_ledger: dict[type[Request], Handler] = {
            AddRequest: self._add,
            ReadRequest: self._read,
            BatchReadRequest: self._read_batch,
            WriteLacRequest: self._write_lac,
            ReadLacRequest: reads.read_lac,
            ListEntriesRequest: reads.list_entries,
        }

    @property
    def pending_bytes(self) -> int:
        """Bytes of adds that wait for their sync; at half of the limit a server stops reading."""
        return self.metrics.pending_bytes

    async def close(self) -> None:
        """Finish what was submitted and leave everything in the index files.

        Whatever is submitted then is answered as by a bookie that is not there.
        """
        self._is_closed = True
        self._polls.release_all()
        await self._storage.close()

    def submit(self, request: Request, reply: Reply) -> None:
        """Do what is asked and reply once. Cost: about 3 us for an add."""
        if self._is_closed or self.failed.done():
            self._answer(reply, ErrorResponse(_GONE, operation_of(request)))
            return
        if type(request) is AddRequest and (state := self._ledgers.get(request.ledger_id)):
            self._add(state, request, reply)
            return
        handler = self._of_ledger.get(type(request))
        if handler is None:
            self._submit_without_ledger(request, reply)
        elif state := self._ledgers.get(request.ledger_id):  # type: ignore[union-attr]
            handler(state, request, reply)
        else:
            self._load_then(handler, request, reply)

    # Ledgers that are not in memory

    def _load_then(self, handler: Handler, request: Any, reply: Reply) -> None:
        ledger_id: LedgerId = request.ledger_id
        if ledger_id < 0:
            self._answer(reply, ErrorResponse(StatusCode.EBADREQ, operation_of(request)))
            return
        waiting = self._loading.setdefault(ledger_id, [])
        waiting.append((handler, request, reply))
        if len(waiting) == 1:
            self._storage.load(ledger_id, functools.partial(self._loaded, ledger_id))

    def _loaded(self, ledger_id: LedgerId, found: LedgerState | Exception | None) -> None:
        for handler, request, reply in self._loading.pop(ledger_id):
            if self._is_closed:
                reply(ErrorResponse(_GONE, operation_of(request)))
            elif isinstance(found, Exception):
                reply(ErrorResponse(status_of(found), operation_of(request)))
            else:
                handler(self._ledgers.get(ledger_id), request, reply)

    def _owned(
        self, state: LedgerState | None, ledger_id: LedgerId, key: bytes
    ) -> LedgerState | None:
        """Return the ledger, new if need be, if `key` is its master key; else None."""
        if state is None:
            return self._storage.create(ledger_id, key)
        if not state.master_key.strip(b"\0"):
            self._storage.set_master_key(state, key)
        return state if state.master_key == key else None

    # Writes

    def _add(  # noqa: C901 - hot: its parts are here and not behind calls
        self, state: LedgerState | None, request: AddRequest, reply: Reply
    ) -> None:
        ledger_id, entry_id, master_key, body, recovery, _, priority = request
        try:
            head = _HEAD.unpack_from(body[0])
        except (struct.error, IndexError):
            head = _short_head(request, self._entry_bytes_max)
        if (
            head[:2] != (ledger_id, entry_id)
            or not 0 <= entry_id <= ENTRY_ID_MAX
            or sum(map(len, body)) > self._entry_bytes_max
        ):
            self._refuse_add(request, reply, StatusCode.EBADREQ)
            return
        if recovery:
            reply = functools.partial(self._added_again, request, reply)
        if self.health.reason and self.health.refuses(priority):
            self._refuse_add(request, reply, StatusCode.EREADONLY)
            return
        if state is None or state.master_key != master_key:
            state = self._claim(state, request, reply)
            if state is None:
                return
        if state.fenced and not recovery:
            self._refuse_add(request, reply, StatusCode.EFENCED)
            return
        if self.metrics.pending_bytes > self._pending_bytes_max:
            self.metrics.adds_refused_total += 1
            self._refuse_add(request, reply, StatusCode.ETOOMANYREQUESTS)
            return
        self._storage.add(state, entry_id, head[2], body, reply)

    def _claim(
        self, state: LedgerState | None, request: AddRequest, reply: Reply
    ) -> LedgerState | None:
        key = bytes(request.master_key)
        if not key or len(key) > KEY_BYTES_MAX:
            self._refuse_add(request, reply, StatusCode.EUA)
            return None
        was_fenced = state is None and self._storage.was_fenced(request.ledger_id)
        if was_fenced and not request.recovery:
            self._refuse_add(request, reply, StatusCode.EFENCED)
            return None
        owned = self._owned(state, request.ledger_id, key)
        if owned is None:
            self._refuse_add(request, reply, StatusCode.EUA)
        elif was_fenced:  # given up to other bookies, and copied back: its writer stays refused
            self._storage.fence(owned)
        return owned

    def _added_again(self, request: AddRequest, reply: Reply, response: AddResponse) -> None:
        """Answer a recovery's add: what has no room needs none if the entry is here already."""
        ledger_id, entry_id = request.ledger_id, request.entry_id
        state = self._ledgers.get(ledger_id)
        if (
            response.status is not StatusCode.EREADONLY
            or state is None
            or state.master_key != request.master_key
        ):
            reply(response)
            return

        def then(stored: bytes | Exception | None) -> None:
            held = isinstance(stored, bytes) and is_held(
                ledger_id, entry_id, stored, b"".join(request.body)
            )
            reply(AddResponse(StatusCode.EOK, ledger_id, entry_id) if held else response)

        if not self._reads.fetch(state, entry_id, then):
            reply(response)

    def _refuse_add(self, request: AddRequest, reply: Reply, status: StatusCode) -> None:
        self._answer(reply, AddResponse(status, request.ledger_id, request.entry_id))

    def _write_lac(self, state: LedgerState | None, request: WriteLacRequest, reply: Reply) -> None:
        ledger_id = request.ledger_id
        status = self._check_write_lac(state, request)
        owned = None
        if status is StatusCode.EOK:
            owned = self._owned(state, ledger_id, bytes(request.master_key))
        if owned is None:
            refused = StatusCode.EUA if status is StatusCode.EOK else status
            self._answer(reply, WriteLacResponse(refused, ledger_id))
            return
        done = WriteLacResponse(StatusCode.EOK, ledger_id)
        self._storage.write_lac(owned, bytes(request.body), functools.partial(reply, done))

    def _check_write_lac(self, state: LedgerState | None, request: WriteLacRequest) -> StatusCode:
        body = request.body
        is_packet = _PACKET.size <= len(body) <= PACKET_BYTES_MAX
        if not is_packet or _PACKET.unpack_from(body) != (request.ledger_id, request.lac):
            return StatusCode.EBADREQ
        if self.health.refuses(request.priority):
            return StatusCode.EREADONLY
        if not 0 < len(request.master_key) <= KEY_BYTES_MAX:
            return StatusCode.EUA
        if state is None and self._storage.was_fenced(request.ledger_id):
            return StatusCode.ENOLEDGER
        is_full = self.metrics.pending_bytes > self._pending_bytes_max
        return StatusCode.ETOOMANYREQUESTS if is_full else StatusCode.EOK

    # Reads

    def _read(self, state: LedgerState | None, request: ReadRequest, reply: Reply) -> None:
        if request.entry_id < -1:
            self._reads.refuse(request, reply, StatusCode.EBADREQ)
        elif request.fence:
            self._fence_and_read(state, request, reply)
        elif request.previous_lac is not None:
            self._polls.read(state, request, reply)
        elif request.piggyback:
            self._reads.refuse(request, reply, StatusCode.EBADREQ)
        else:
            self._reads.read(state, request, reply)

    def _fence_and_read(
        self, state: LedgerState | None, request: ReadRequest, reply: Reply
    ) -> None:
        owned = self._fencible(state, request.ledger_id, request.master_key)
        if owned is None:
            self._reads.refuse(request, reply, StatusCode.EUA)
        else:
            read = functools.partial(self._reads.read_fenced, owned, request, reply)
            self._fence_then(owned, read)

    def _read_batch(
        self, state: LedgerState | None, request: BatchReadRequest, reply: Reply
    ) -> None:
        if request.entry_id < -1:
            self._batches.refuse(request, reply, StatusCode.EBADREQ)
        elif not request.fence:
            self._batches.read(state, request, reply)
        elif owned := self._fencible(state, request.ledger_id, request.master_key):
            read = functools.partial(self._batches.read, owned, request, reply)
            self._fence_then(owned, read)
        else:
            self._batches.refuse(request, reply, StatusCode.EUA)

    def _fencible(
        self, state: LedgerState | None, ledger_id: LedgerId, key: bytes
    ) -> LedgerState | None:
        """Return the ledger, new if need be, if `key` may fence it."""
        if 0 < len(key) <= KEY_BYTES_MAX:
            return self._owned(state, ledger_id, bytes(key))
        return None

    def _fence_then(self, state: LedgerState, then: Callable[[], None]) -> None:
        """Stop ordinary adds at once; call when the fence is durable.

        Adds that were submitted before are durable by then, and seen by a read.
        """
        if state.fence_durable:
            then()
            return
        state.fence_waiters.append(then)
        if not state.fenced:
            self._storage.fence(state)

    # Requests that need no ledger

    def _submit_without_ledger(self, request: Request, reply: Reply) -> None:
        match request:
            case ForceLedgerRequest():
                done = ForceLedgerResponse(StatusCode.EOK, request.ledger_id)
                self._storage.force(request.ledger_id, functools.partial(reply, done))
            case BookieInfoRequest():
                answer = functools.partial(_answer_info, request, reply)
                self._storage.rooms().add_done_callback(answer)
            case AuthRequest():
                self._answer(reply, AuthResponse(StatusCode.EOK, "AuthDisabledPlugin", b""))
            case StartTlsRequest():
                self._answer(reply, ErrorResponse(StatusCode.EBADREQ, operation_of(request)))
            case UnknownRequest():
                self._answer(reply, ErrorResponse(request.status, request.operation))
            case _:
                raise AssertionError(f"no handler for {request!r}")

    def _answer(self, reply: Reply, response: Response) -> None:
        self._loop.call_soon(reply, response)


def _short_head(request: AddRequest, bytes_max: int) -> tuple[int, int, int]:
    """Return ledger id, entry id and LAC of a body whose first part is short; -1 for none."""
    size = sum(map(len, request.body))
    if not _HEAD.size <= size <= bytes_max:
        return (-1, -1, -1)  # refused, so it need not be joined
    return _HEAD.unpack_from(b"".join(request.body))


def _answer_info(
    request: BookieInfoRequest, reply: Reply, found: "asyncio.Future[dict[Path, Space]]"
) -> None:
    error = found.exception()
    if error is not None:
        assert isinstance(error, Exception), "the reading thread hands on no other"
        reply(BookieInfoResponse(status_of(error)))
        return
    room, wanted = in_all(found.result()), request.requested or 0
    reply(
        BookieInfoResponse(
            StatusCode.EOK,
            room.total_bytes if wanted & BookieInfo.TOTAL_DISK_CAPACITY else None,
            room.free_bytes if wanted & BookieInfo.FREE_DISK_SPACE else None,
        )
    )
