"""Who waits for what in a log writer: the position of a record, a flush, a commit, or room.

A record has a number, its count in the life of its writer. Its position is known when it is sent,
and told when it is confirmed. Each queue is in order by itself, so each step looks at heads only.
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

from tailrace.core.errors import CoreError, WriteCancelled
from tailrace.protocol.distributedlog.dlsn import DLSN


class Run(NamedTuple):
    """Records that follow each other in an entry."""

    first: DLSN
    records: int


class BulkReceipt:
    """What becomes of records that are appended together: one future for all of them.

    Invariant: those with a position are a prefix of them, and so are those that were taken.
    """

    __slots__ = ("_failure", "confirmed", "count", "done", "refusal", "runs", "taken", "unplaced")

    def __init__(self, count: int, taken: int, refusal: CoreError | None) -> None:
        self.count = count
        self.taken = taken
        """How many the writer took."""
        self.refusal = refusal
        """Why the first that was not taken is refused; those behind it are not tried."""
        self.runs: list[Run] = []
        """Where the confirmed ones are, in order."""
        self.confirmed = 0
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done when nothing changes any more; it has no error."""
        self._failure: CoreError | None = None
        self.unplaced = taken
        """How many were taken and are not sent."""
        if not taken:
            self.done.set_result(None)

    @property
    def error(self) -> CoreError | None:
        """Why the first record without a position has none, once it is done; None: each has one."""
        return self.refusal if self.confirmed == self.taken else self._failure

    def confirm(self, run: Run) -> None:
        """Take note of where the next records are."""
        self.runs.append(run)
        self.confirmed += run.records
        if self.confirmed == self.taken:
            _resolve(self.done)

    def fail(self, error: CoreError) -> None:
        """Take note that no more will have a position."""
        if not self.done.done():
            self._failure = error
            self.done.set_result(None)


def cut_runs(runs: Sequence[Run], start: int, count: int) -> list[Run]:
    """Return the runs of `count` records from the one of index `start` on, as far as they go."""
    found: list[Run] = []
    ends = accumulate(run.records for run in runs)
    for (first, length), end in zip(runs, ends, strict=True):
        skipped = max(start - (end - length), 0)
        kept = min(start + count, end) - (end - length) - skipped
        if kept > 0:
            found.append(Run(first._replace(slot=first.slot + skipped), kept))
    return found


class Receipts:
    """The waiters of one writer, made when the first one comes. Bounded by what may wait there."""

    __slots__ = (
        "_commits", "_flushes", "_loop", "_more_room", "_placed", "_placed_bulks", "_unplaced",
        "_unplaced_bulks",
    )  # fmt: skip

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._unplaced: deque[tuple[int, asyncio.Future[DLSN]]] = deque()
        self._placed: deque[tuple[int, DLSN, asyncio.Future[DLSN]]] = deque()
        self._unplaced_bulks: deque[tuple[int, BulkReceipt]] = deque()
        self._placed_bulks: deque[tuple[int, Run, BulkReceipt]] = deque()
        self._flushes: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._commits: deque[tuple[DLSN, asyncio.Future[None]]] = deque()
        self._more_room: asyncio.Future[None] | None = None

    @property
    def is_idle(self) -> bool:
        """Whether nobody waits."""
        records = self._unplaced or self._placed or self._unplaced_bulks or self._placed_bulks
        return not (records or self._flushes or self._commits) and self._more_room is None

    def position_of(self, number: int) -> "asyncio.Future[DLSN]":
        """Return a future of the position of the record of this number, not sent yet.

        Errors of the future: the writer's failure; WriteCancelled when it was never sent.
        """
        waiter: asyncio.Future[DLSN] = self._loop.create_future()
        self._unplaced.append((number, waiter))
        return waiter

    def add_bulk(self, last: int, receipt: BulkReceipt) -> None:
        """Fill in a receipt whose last record that was taken has this number; none is sent yet."""
        if receipt.taken:
            self._unplaced_bulks.append((last, receipt))

    async def confirmed(self, number: int) -> None:
        """Wait for all records up to this number. Errors: the writer's failure."""
        waiter: asyncio.Future[None] = self._loop.create_future()
        self._flushes.append((number, waiter))
        await waiter

    async def reached(self, entry: DLSN) -> None:
        """Wait for an entry of the current segment. Errors: the writer's failure."""
        waiter: asyncio.Future[None] = self._loop.create_future()
        self._commits.append((entry, waiter))
        await waiter

    def any_room(self) -> "asyncio.Future[None]":
        """Return the future that is done when there is more room, or never will be.

        Shared by all who seek room, and not to be cancelled.
        """
        if self._more_room is None or self._more_room.done():  # other logs made room
            self._more_room = self._loop.create_future()
        return self._more_room

    def withdraw(self, waiter: "asyncio.Future[DLSN]") -> None:
        """Forget the newest waiter: its record was not taken."""
        if self._unplaced and self._unplaced[-1][1] is waiter:
            self._unplaced.pop()

    def on_sent(self, before: int, last: int, first_slot: DLSN) -> None:
        """Take note that the records behind number `before`, up to `last`, are in one entry."""
        unplaced, placed = self._unplaced, self._placed
        lssn, entry_id, _ = first_slot
        while unplaced and unplaced[0][0] <= last:
            number, waiter = unplaced.popleft()
            placed.append((number, DLSN(lssn, entry_id, number - before - 1), waiter))
        bulks = self._unplaced_bulks
        while bulks:
            end, receipt = bulks[0]
            number = end - receipt.unplaced + 1
            if number > last:
                break
            count = min(end, last) - number + 1
            run = Run(DLSN(lssn, entry_id, number - before - 1), count)
            self._placed_bulks.append((number + count - 1, run, receipt))
            receipt.unplaced -= count
            if receipt.unplaced:
                break
            bulks.popleft()

    def on_confirmed(self, last: int, reached: DLSN) -> None:
        """Tell who waits for records up to number `last`, or for entries up to `reached`."""
        while self._placed and self._placed[0][0] <= last:
            _, dlsn, waiter = self._placed.popleft()
            if not waiter.done():
                waiter.set_result(dlsn)
        while self._placed_bulks and self._placed_bulks[0][0] <= last:
            _, run, receipt = self._placed_bulks.popleft()
            receipt.confirm(run)
        while self._flushes and self._flushes[0][0] <= last:
            _resolve(self._flushes.popleft()[1])
        while self._commits and self._commits[0][0] <= reached:
            _resolve(self._commits.popleft()[1])
        self._wake_seekers()

    def on_failed(self, error: CoreError) -> None:
        """Tell everybody that the writer is dead; who was not sent is certainly not in the log."""
        cancelled = WriteCancelled(f"not sent, because the writer failed before: {error}")
        for _, waiter in self._unplaced:
            refuse(waiter, cancelled)
        for _, _, waiter in self._placed:
            refuse(waiter, error)
        for _, _, receipt in self._placed_bulks:
            receipt.fail(error)
        for _, receipt in self._unplaced_bulks:
            receipt.fail(cancelled)
        for _, flush in (*self._flushes, *self._commits):
            refuse(flush, error)
        for queue in (self._unplaced, self._placed, self._flushes, self._commits):
            queue.clear()
        self._unplaced_bulks.clear()
        self._placed_bulks.clear()
        self._wake_seekers()

    def _wake_seekers(self) -> None:
        if self._more_room is not None:
            _resolve(self._more_room)
            self._more_room = None


def refuse(waiter: "asyncio.Future[DLSN] | asyncio.Future[None]", error: CoreError) -> None:
    """Fail a waiter that nobody may be looking at: the listener hears of the failure anyway."""
    if not waiter.done():
        waiter.set_exception(error.with_traceback(None))
        waiter.exception()  # retrieved


def _resolve(waiter: "asyncio.Future[None]") -> None:
    if not waiter.done():
        waiter.set_result(None)
