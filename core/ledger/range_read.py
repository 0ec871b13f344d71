"""Reads a range of entries ahead within a window: the I/O beside `read_decisions`.

The common case, the first replica answers rightly, keeps no state per entry but its deadline; a
failure or a silence makes an `EntryRead` that decides from then on.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from heapq import heappop, heappush
from typing import TypeAlias

from tailrace.core.errors import CoreError, CorruptData
from tailrace.core.ledger.metrics import LedgerMetrics
from tailrace.core.ledger.outcomes import error_of
from tailrace.core.ledger.read_decisions import EntryRead
from tailrace.core.ledger.replicas import Replicas
from tailrace.core.ledger.schedule import Schedules
from tailrace.protocol.bookkeeper.digest import Digest
from tailrace.protocol.bookkeeper.entry import Entry, read_entry
from tailrace.protocol.bookkeeper.messages import ReadRequest, ReadResponse, Response, StatusCode
from tailrace.protocol.errors import DecodeError
from tailrace.protocol.ids import NO_ENTRY, BookieId, EntryId, LedgerId

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ReadContext:
    """What the reads of one ledger share, with the metadata as it is known now."""

    ledger_id: LedgerId
    digest: Digest
    schedules: Schedules
    replicas: Replicas
    window: int
    metrics: LedgerMetrics
    order: Callable[[EntryId], tuple[BookieId, ...]]
    """Whom to ask for an entry, best first."""
    on_replica_failed: Callable[[EntryId, BookieId, StatusCode], None]

    def entry_of(
        self, entry_id: EntryId | None, bookie: BookieId, response: Response
    ) -> Entry | CoreError:
        """Return the entry of an answer, or why there is none: wrong bytes are a failure too."""
        what = f"read {entry_id} of ledger {self.ledger_id} at bookie {bookie}"
        if not isinstance(response, ReadResponse) or response.status is not StatusCode.EOK:
            return error_of(response.status, what)
        try:
            return read_entry(response.body or b"", self.ledger_id, entry_id, self.digest)
        except DecodeError as error:
            logger.warning("entry_corrupt bookie=%s %s", bookie, error)
            return CorruptData(f"{what}: {error}")


_Deadline: TypeAlias = tuple[float, EntryId, BookieId]
"""When a replica that was asked for an entry is thought to be silent, in loop time."""


class RangeRead:
    """One range being read; made anew for each."""

    __slots__ = (
        "_client", "_context", "_deadlines", "_entries", "_first", "_future", "_heard",
        "_is_parallel", "_last", "_later_deadlines", "_loop", "_missing", "_next", "_orders",
        "_pause_s", "_reads", "_start_s", "_timer", "lac",
    )  # fmt: skip

    def __init__(
        self, context: ReadContext, first: EntryId, last: EntryId, *, parallel: bool = False
    ) -> None:
        """`parallel`: ask all replicas of an entry at once."""
        self._context = context
        self._first = first
        self._last = last
        self._is_parallel = parallel
        self.lac = NO_ENTRY
        """Highest LAC that the answers told, by any bookie's word."""
        self._next = first
        self._missing = last - first + 1
        self._entries: list[Entry | None] = [None] * self._missing
        self._reads: dict[EntryId, EntryRead] = {}
        self._heard: set[BookieId] = set()
        self._loop = asyncio.get_running_loop()
        self._future: asyncio.Future[list[Entry]] = self._loop.create_future()
        self._pause_s = context.replicas.speculation.first_s
        self._deadlines: deque[_Deadline] = deque()  # of the first replicas: in order as they come
        self._later_deadlines: list[_Deadline] = []  # a heap
        self._orders: list[tuple[BookieId, ...]] = []
        self._client = context.replicas.client
        self._timer: asyncio.TimerHandle | None = None
        self._start_s = self._loop.time()

    def start(self) -> "asyncio.Future[list[Entry]]":
        """Ask for the first entries; the result has all, in order. Errors: as LedgerReader.read.

        Cancel: late answers are dropped.
        """
        self._plan(self._start_s)
        for _ in range(min(self._context.window, self._missing)):
            self._ask_next()
        return self._future

    def _plan(self, now_s: float) -> None:
        """Take the orders as they are now; within a fragment they repeat with each ensemble."""
        context = self._context
        context.replicas.refresh(now_s)
        schedule = context.schedules.of(self._first)
        count = min(len(schedule.ensemble), self._last - self._first + 1)
        if context.schedules.of(self._last) is not schedule:
            count = 0
        self._orders = [context.order(self._first + i) for i in range(count)]

    def _order(self, entry_id: EntryId) -> tuple[BookieId, ...]:
        orders = self._orders
        if orders:
            return orders[(entry_id - self._first) % len(orders)]
        return self._context.order(entry_id)

    def _ask_next(self) -> None:
        entry_id = self._next
        if entry_id > self._last:
            return
        self._next = entry_id + 1
        order = self._order(entry_id)
        if self._is_parallel:
            self._reads[entry_id] = EntryRead(order, len(order))
            for bookie in order:
                self._ask(entry_id, bookie)
            return
        first = order[0]
        self._ask(entry_id, first)
        if self._pause_s and len(order) > 1:
            self._deadlines.append((self._loop.time() + self._pause_s, entry_id, first))
            if self._timer is None:
                self._set_timer()

    def _ask(self, entry_id: EntryId, bookie: BookieId) -> None:
        request = ReadRequest(self._context.ledger_id, entry_id)
        self._client(bookie).submit(request, partial(self._on_reply, entry_id, bookie))

    def _on_reply(self, entry_id: EntryId, bookie: BookieId, response: Response) -> None:
        place = entry_id - self._first
        if self._future.done() or self._entries[place] is not None:
            return  # failed, cancelled, or another replica was faster; late answers are normal
        outcome = self._context.entry_of(entry_id, bookie, response)
        if isinstance(outcome, CoreError):
            self._on_failed(entry_id, bookie, response.status, outcome)
            return
        if bookie not in self._heard:
            self._heard.add(bookie)
            if place < self._context.window and not self._reads:  # it was asked at the start
                elapsed_s = self._loop.time() - self._start_s
                self._context.replicas.on_latency(bookie, elapsed_s)
        assert isinstance(response, ReadResponse)
        if response.max_lac is not None and response.max_lac > self.lac:
            self.lac = response.max_lac
        if self._reads:
            self._on_won(entry_id, bookie)
        self._entries[place] = outcome
        self._missing -= 1
        if self._missing:
            self._ask_next()
        else:
            self._finish()

    def _finish(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._future.set_result([entry for entry in self._entries if entry is not None])

    def _on_won(self, entry_id: EntryId, winner: BookieId) -> None:
        read = self._reads.pop(entry_id, None)
        if read is not None and not self._is_parallel:
            replicas = self._context.replicas
            for bookie in read.outrun_by(winner):
                replicas.on_slow(bookie)
            self._plan(self._loop.time())  # the rest of the range asks others first

    def _on_failed(
        self, entry_id: EntryId, bookie: BookieId, status: StatusCode, error: CoreError
    ) -> None:
        self._context.metrics.replica_failures_total += 1
        read = self._read_of(entry_id, bookie)
        self._context.on_replica_failed(entry_id, bookie, status)
        self._plan(self._loop.time())
        following = read.on_failure(bookie, error)
        if following is not None:
            self._ask(entry_id, following)
        elif read.is_lost:
            if self._timer is not None:
                self._timer.cancel()
            assert read.error is not None
            self._future.set_exception(read.error)

    def _read_of(self, entry_id: EntryId, asked: BookieId) -> EntryRead:
        """Return the entry's decisions; made when the first replica that was asked has trouble."""
        read = self._reads.get(entry_id)
        if read is None:
            others = (b for b in self._order(entry_id) if b != asked)
            read = self._reads[entry_id] = EntryRead((asked, *others), 1)
        return read

    # -- speculation ---

    def _set_timer(self) -> None:
        queue = self._next_queue()
        if queue:
            self._timer = self._loop.call_at(queue[0][0], self._on_timer)

    def _next_queue(self) -> "deque[_Deadline] | list[_Deadline]":
        """Return the deadlines that begin with the earliest one of an entry that is missing."""
        first, later = self._deadlines, self._later_deadlines
        while first and self._entries[first[0][1] - self._first] is not None:
            first.popleft()
        while later and self._entries[later[0][1] - self._first] is not None:
            heappop(later)
        return first if first and (not later or first[0] <= later[0]) else later

    def _on_timer(self) -> None:
        """Ask one more replica for each entry that waits too long."""
        self._timer = None
        if self._future.done():
            return
        now_s = self._loop.time()
        while (queue := self._next_queue()) and queue[0][0] <= now_s:
            if queue is self._deadlines:
                _, entry_id, bookie = self._deadlines.popleft()
            else:
                _, entry_id, bookie = heappop(self._later_deadlines)
            self._speculate(entry_id, bookie, now_s)
        self._set_timer()

    def _speculate(self, entry_id: EntryId, silent: BookieId, now_s: float) -> None:
        read = self._read_of(entry_id, silent)
        bookie = read.on_silence(self._heard)
        if bookie is None:
            return
        self._context.metrics.speculative_reads_total += 1
        pause_s = self._context.replicas.speculation.pause_s(len(read.asked))
        heappush(self._later_deadlines, (now_s + pause_s, entry_id, bookie))
        self._ask(entry_id, bookie)
