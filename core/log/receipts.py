"""Who waits for what in a log writer: the position of a record, a flush, a commit, or room.

A record has a number, its count in the life of its writer. Its position is known when it is sent,
and told when it is confirmed. Each queue is in order by itself, so each step looks at heads only.
"""

import asyncio
from collections import deque

from tailrace.core.errors import CoreError, WriteCancelled
from tailrace.protocol.distributedlog.dlsn import DLSN


class Receipts:
    """The waiters of one writer, made when the first one comes. Bounded by what may wait there."""

    __slots__ = ("_commits", "_flushes", "_loop", "_more_room", "_placed", "_unplaced")

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._unplaced: deque[tuple[int, asyncio.Future[DLSN]]] = deque()
        self._placed: deque[tuple[int, DLSN, asyncio.Future[DLSN]]] = deque()
        self._flushes: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._commits: deque[tuple[DLSN, asyncio.Future[None]]] = deque()
        self._more_room: asyncio.Future[None] | None = None

    @property
    def is_idle(self) -> bool:
        """Whether nobody waits."""
        waiting = self._unplaced or self._placed or self._flushes or self._commits
        return not waiting and self._more_room is None

    def position_of(self, number: int) -> "asyncio.Future[DLSN]":
        """Return a future of the position of the record of this number, not sent yet.

        Errors of the future: the writer's failure; WriteCancelled when it was never sent.
        """
        waiter: asyncio.Future[DLSN] = self._loop.create_future()
        self._unplaced.append((number, waiter))
        return waiter

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

    def on_confirmed(self, last: int, reached: DLSN) -> None:
        """Tell who waits for records up to number `last`, or for entries up to `reached`."""
        while self._placed and self._placed[0][0] <= last:
            _, dlsn, waiter = self._placed.popleft()
            if not waiter.done():
                waiter.set_result(dlsn)
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
        for _, flush in (*self._flushes, *self._commits):
            refuse(flush, error)
        for queue in (self._unplaced, self._placed, self._flushes, self._commits):
            queue.clear()
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
