"""Waits at the tail of an open ledger for one entry: the I/O beside `long_poll`'s decisions.

ask one bookie, which answers when its LAC moves or the time is over -> the next one when it is
silent for long, at once when it fails -> the entry, a LAC, or nothing new
"""

import asyncio
from functools import partial

from tailrace.core.errors import CoreError
from tailrace.core.ledger.long_poll import LongPoll, Outcome
from tailrace.core.ledger.outcomes import ABSENT
from tailrace.core.ledger.range_read import ReadContext
from tailrace.core.ledger.schedule import Schedule
from tailrace.protocol.bookkeeper.entry import Entry
from tailrace.protocol.bookkeeper.messages import (
    LAST_ENTRY,
    ReadRequest,
    ReadResponse,
    Response,
    StatusCode,
)
from tailrace.protocol.ids import NO_ENTRY, BookieId, EntryId


class TailRead:
    """One wait; made anew for each."""

    __slots__ = (
        "_context", "_deadline_s", "_future", "_loop", "_poll", "_timer", "entry", "lac",
    )  # fmt: skip

    def __init__(
        self, context: ReadContext, schedule: Schedule, entry_id: EntryId, deadline_s: float
    ) -> None:
        """`deadline_s`: loop time until which bookies may hold their answers back."""
        order = context.order(entry_id)
        others = context.replicas.order(tuple(b for b in schedule.ensemble if b not in order))
        self._context = context
        self._deadline_s = deadline_s
        self._poll = LongPoll(schedule, entry_id, (*order, *others))
        self._loop = asyncio.get_running_loop()
        self._future: asyncio.Future[Outcome] = self._loop.create_future()
        self._timer: asyncio.TimerHandle | None = None
        self.lac = NO_ENTRY
        """Highest LAC that the answers told, by any bookie's word."""
        self.entry: Entry | None = None

    @property
    def error(self) -> CoreError | None:
        """What went wrong, after FAILED and ABSENT."""
        return self._poll.error

    def start(self) -> "asyncio.Future[Outcome]":
        """Ask; the result is never PENDING. Cancel: late answers are dropped."""
        config = self._context.replicas.config
        bookie = self._poll.next()
        while bookie is not None:
            self._ask(bookie)
            bookie = self._poll.next() if config.long_poll_parallel else None
        self._set_timer()
        return self._future

    def stop(self) -> None:
        """End the wait: what was not heard is not heard any more."""
        if self._timer is not None:
            self._timer.cancel()
        self._future.cancel()

    def _ask(self, bookie: BookieId) -> None:
        left_ms = int((self._deadline_s - self._loop.time()) * 1000)
        request = ReadRequest(
            self._context.ledger_id,
            LAST_ENTRY,
            previous_lac=self._poll.entry_id - 1,
            timeout_ms=left_ms if left_ms > 0 else None,  # None: answer at once
            piggyback=True,
        )
        client = self._context.replicas.client(bookie)
        client.submit(request, partial(self._on_reply, bookie))

    def _on_reply(self, bookie: BookieId, response: Response) -> None:
        if self._future.done():
            return  # somebody else said it all, or nobody waits
        following = self._count(bookie, response)
        outcome = self._poll.outcome
        if outcome is not Outcome.PENDING:
            if self._timer is not None:
                self._timer.cancel()
            self._future.set_result(outcome)
        elif following is not None:
            self._ask(following)
            self._set_timer()

    def _count(self, bookie: BookieId, response: Response) -> BookieId | None:
        """Return whom to ask now, if anybody."""
        poll = self._poll
        if isinstance(response, ReadResponse) and response.status is StatusCode.EOK:
            if response.max_lac is not None:
                self.lac = max(self.lac, response.max_lac)
            if not response.body:
                return poll.on_lac(self.lac)
        found = self._context.entry_of(poll.entry_id, bookie, response)
        if isinstance(found, Entry):
            # A bookie that gives the entry knows it to be confirmed.
            self.lac = max(self.lac, found.lac, found.entry_id)
            self.entry = found
            poll.on_entry()
            return None
        self._context.on_replica_failed(poll.entry_id, bookie, response.status)
        if response.status in ABSENT:
            return poll.on_absent(bookie, found)
        return poll.on_failure(found)

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        speculation = self._context.replicas.long_poll_speculation
        if speculation.first_s and len(self._poll.asked) < len(self._poll.order):
            pause_s = speculation.pause_s(len(self._poll.asked))
            self._timer = self._loop.call_later(pause_s, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        if self._future.done():
            return
        bookie = self._poll.next()
        if bookie is not None:
            self._context.metrics.speculative_reads_total += 1
            self._ask(bookie)
            self._set_timer()
