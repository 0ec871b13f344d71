"""Reads that wait for a ledger's LAC to move. Source: reference BookKeeper 1.7, long poll."""

import asyncio
import functools
from collections.abc import Callable
from typing import Any

from tailrace.bookie.errors import status_of
from tailrace.bookie.ledger_state import LedgerState
from tailrace.bookie.reads import Reads
from tailrace.protocol.bookkeeper.messages import (
    LAST_ENTRY,
    ReadRequest,
    ReadResponse,
    Response,
    StatusCode,
)

WAIT_MS_MAX = 3_600_000
"""No read waits longer, whatever it asks for."""

Reply = Callable[[Any], Any]


class LongPolls:
    """Waits until the LAC passes what the reader knows, the ledger is fenced, or time is up."""

    def __init__(
        self, reads: Reads, waiting_max: int, answer: Callable[[Reply, Response], None]
    ) -> None:
        self._reads = reads
        self._metrics = reads.metrics
        self._waiting_max = waiting_max
        self._answer = answer
        self._waiting: dict[_Waiter, None] = {}  # answered in the order they came in
        self._loop = asyncio.get_running_loop()

    def read(self, state: LedgerState | None, request: ReadRequest, reply: Reply) -> None:
        """Answer now if there is news or no time was given; else wait for either."""
        previous = request.previous_lac
        assert previous is not None, "a long poll says what its reader knows"
        if request.piggyback and request.entry_id != LAST_ENTRY:
            self._reads.refuse(request, reply, StatusCode.EBADREQ)
        elif state is None:
            self._reads.refuse(request, reply, StatusCode.ENOLEDGER)
        elif request.timeout_ms is None or state.lac > previous or state.fenced:
            self._evaluate(state, request, reply)
        elif len(self._waiting) >= self._waiting_max:
            self._reads.refuse(request, reply, StatusCode.ETOOMANYREQUESTS)
        else:
            self._wait(state, request, reply)

    def release_all(self) -> None:
        """Answer everybody who waits with what is known now."""
        for waiter in list(self._waiting):
            waiter.wake()

    def _wait(self, state: LedgerState, request: ReadRequest, reply: Reply) -> None:
        waiter = _Waiter(state, functools.partial(self._evaluate, state, request, reply))
        waiter.ended = functools.partial(self._forget, waiter)
        self._waiting[waiter] = None
        self._metrics.long_polls = len(self._waiting)
        state.waiters.append(waiter.wake)
        wait_s = min(max(request.timeout_ms or 0, 0), WAIT_MS_MAX) / 1000
        waiter.timer = self._loop.call_later(wait_s, waiter.wake)

    def _forget(self, waiter: "_Waiter") -> None:
        self._waiting.pop(waiter, None)
        self._metrics.long_polls = len(self._waiting)

    def _evaluate(self, state: LedgerState, request: ReadRequest, reply: Reply) -> None:
        if not request.piggyback:
            self._reads.read(state, request, reply)
            return
        ledger_id, previous = request.ledger_id, max(request.previous_lac or 0, -1)
        lac = state.lac
        if lac <= previous:
            unchanged = ReadResponse(StatusCode.EOK, ledger_id, LAST_ENTRY, None, lac)
            self._answer(reply, unchanged)
            return
        lac_ms = state.lac_ms or None

        def then(body: bytes | Exception | None) -> None:
            if isinstance(body, Exception):
                reply(ReadResponse(status_of(body), ledger_id, LAST_ENTRY))
            elif body is None:
                reply(ReadResponse(StatusCode.EOK, ledger_id, LAST_ENTRY, None, lac))
            else:
                reply(ReadResponse(StatusCode.EOK, ledger_id, previous + 1, body, lac, lac_ms))

        if not self._reads.fetch(state, previous + 1, then):
            self._reads.refuse(request, reply, StatusCode.ETOOMANYREQUESTS)


class _Waiter:
    """One read that waits; it is evaluated once, by whoever wakes it first."""

    def __init__(self, state: LedgerState, evaluate: Callable[[], None]) -> None:
        self._state = state
        self._evaluate = evaluate
        self.timer: asyncio.TimerHandle | None = None
        self.ended: Callable[[], None] | None = None

    def wake(self) -> None:
        """Evaluate, unless that has happened."""
        if self.ended is None:
            return
        self.ended()
        self.ended = None
        if self.timer is not None:
            self.timer.cancel()
        if self.wake in self._state.waiters:
            self._state.waiters.remove(self.wake)
        self._evaluate()
