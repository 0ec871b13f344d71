"""Several entries in one answer (protocol v2, and the client of this process).

The first entry comes whatever its size, and its failure is the answer's; the others come while the
answer keeps below its bytes, up to the first that is missing or damaged, without a word about that.
Source: reference BookKeeper 1.11.
"""

from collections.abc import Callable
from typing import Any, Final

from tailrace.bookie.errors import status_of
from tailrace.bookie.ledger_state import LedgerState
from tailrace.bookie.reads import Reads
from tailrace.bookie.storage import BATCH_ENTRIES_MAX
from tailrace.protocol.bookkeeper.messages import (
    BatchReadRequest,
    BatchReadResponse,
    Response,
    StatusCode,
)
from tailrace.protocol.ids import Buffer

_ANSWER_BYTES: Final = 24 + 8 + 4  # as Java counts: head, request id, frame length

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
        first, count_max = request.entry_id, request.count_max
        if count_max <= 0:
            count_max = BATCH_ENTRIES_MAX
        room = min(request.bytes_max, self._bytes_max) - _ANSWER_BYTES

        def then(bodies: list[Buffer] | Exception) -> None:
            reply(_response(request, bodies))

        if not self._reads.fetch_batch(state, first, count_max, room, then):
            self.refuse(request, reply, StatusCode.ETOOMANYREQUESTS)

    def refuse(self, request: BatchReadRequest, reply: Reply, status: StatusCode) -> None:
        """Answer with a status only."""
        self._answer(reply, BatchReadResponse(status, request.ledger_id, request.entry_id))


def _response(request: BatchReadRequest, bodies: list[Buffer] | Exception) -> BatchReadResponse:
    ledger_id, entry_id = request.ledger_id, request.entry_id
    if isinstance(bodies, Exception):
        return BatchReadResponse(status_of(bodies), ledger_id, entry_id)
    status = StatusCode.EOK if bodies else StatusCode.ENOENTRY
    return BatchReadResponse(status, ledger_id, entry_id, tuple(bodies))
