"""Several entries in one answer (protocol v2). Source: reference BookKeeper 1.11.

The first entry comes whatever its size, and its failure is the answer's; the others come while the
answer keeps below its bytes, up to the first that is missing or damaged, without a word about that.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from bookie.ledger_state import LedgerState
from bookie.reads import Reads
from protocol.bookkeeper.messages import (
    LAST_ENTRY,
    BatchReadRequest,
    BatchReadResponse,
    Response,
    StatusCode,
)
from protocol.ids import Buffer  # noqa: TC001

AT_ONCE_MAX: Final = 8
"""Entries that are read at once, when they are small: what is read and does not fit is dropped."""
_ANSWER_BYTES: Final = 24 + 8 + 4  # as Java counts: head, request id, frame length
_LENGTH_BYTES: Final = 4

Reply = Callable[[Any], Any]


class BatchReads:
    """Batch reads over `Reads`, each bounded in bytes by the request and by `bytes_max`."""

    def __init__(
        self, reads: Reads, bytes_max: int, answer: Callable[[Reply, Response], None]
    ) -> None:
        self._reads = reads
        self._bytes_max = bytes_max
        self._answer = answer

    def read(self, state: LedgerState | None, request: BatchReadRequest, reply: Reply) -> None:
        """Answer with entries from `request.entry_id` on; LAST_ENTRY is one entry."""
        if state is None:
            self.refuse(request, reply, StatusCode.ENOLEDGER)
            return
        bytes_max = min(request.bytes_max, self._bytes_max)
        batch = _Batch(partial(self._reads.fetch, state), request, bytes_max, reply)
        if not batch.start():
            self.refuse(request, reply, StatusCode.ETOOMANYREQUESTS)

    def refuse(self, request: BatchReadRequest, reply: Reply, status: StatusCode) -> None:
        """Answer with a status only."""
        self._answer(reply, BatchReadResponse(status, request.ledger_id, request.entry_id))


class _Batch:
    """One answer in the making: rounds of reads, each of as many as may fit."""

    def __init__(
        self,
        fetch: Callable[[int, Callable[[bytes | Exception | None], None]], bool],
        request: BatchReadRequest,
        bytes_max: int,
        reply: Reply,
    ) -> None:
        self._fetch = fetch
        self._request = request
        self._reply = reply
        self._bytes_max = bytes_max
        self._used = _ANSWER_BYTES
        self._longest = 0
        self._count_max = request.count_max if request.count_max > 0 else 2**31
        if request.entry_id == LAST_ENTRY:
            self._count_max = 1
        self._bodies: list[Buffer] = []
        self._came: list[bytes | Exception | None] = []
        self._awaited = 0

    def start(self) -> bool:
        """Read the first entry; False if too many reads wait already."""
        return self._ask(1)

    def _ask(self, count: int) -> bool:
        """Read the next `count` entries; whether there is a read to wait for."""
        first = self._request.entry_id + len(self._bodies)
        self._came = [None] * count
        for index in range(count):
            if not self._fetch(first + index, partial(self._on_entry, index)):
                break  # this one and those behind it count as missing
            self._awaited += 1
        return self._awaited > 0

    def _on_entry(self, index: int, body: bytes | Exception | None) -> None:
        self._came[index] = body
        self._awaited -= 1
        if self._awaited == 0:
            self._end_round()

    def _end_round(self) -> None:
        for body in self._came:
            if not isinstance(body, bytes) or not self._take(body):
                break
        else:
            more = self._more()
            if more and self._ask(more):
                return
        self._end()

    def _take(self, body: bytes) -> bool:
        """Add an entry if it fits; the first always does."""
        used = self._used + len(body) + _LENGTH_BYTES
        if self._bodies and used > self._bytes_max:
            return False
        self._used = used
        self._longest = max(self._longest, len(body) + _LENGTH_BYTES)
        self._bodies.append(body)
        return True

    def _more(self) -> int:
        """Return how many to read next: what fits if they are as long as the longest so far."""
        fit = (self._bytes_max - self._used) // self._longest
        if self._bytes_max - self._used <= _LENGTH_BYTES:
            return 0
        return min(AT_ONCE_MAX, max(1, fit), self._count_max - len(self._bodies))

    def _end(self) -> None:
        status = StatusCode.EOK
        if not self._bodies:  # then this was the first round, of one entry
            status = StatusCode.ENOENTRY if self._came[0] is None else StatusCode.EIO
        ledger_id, entry_id = self._request.ledger_id, self._request.entry_id
        self._reply(BatchReadResponse(status, ledger_id, entry_id, tuple(self._bodies)))
