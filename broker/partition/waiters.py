"""Fetches that wait for data: each counts the bytes that became readable, none of them polls.

A waiter stands at every partition of its fetch. When a high watermark moves, its partition tells
its waiters how many bytes that made; the one that has enough is woken, and so is everybody when the
partition fails or goes away. A waiter that is woken looks again and leaves.
"""

import asyncio


class FetchWaiter:
    """One fetch that needs `missing` more bytes."""

    __slots__ = ("future", "missing")

    def __init__(self, missing: int, future: asyncio.Future[None]) -> None:
        self.missing = missing
        self.future = future

    def on_bytes(self, count: int) -> None:
        """Count readable bytes, and wake when they are enough."""
        self.missing -= count
        if self.missing <= 0:
            self.wake()

    def wake(self) -> None:
        """Have the fetch look again now."""
        if not self.future.done():
            self.future.set_result(None)


class Waiters:
    """Who waits at one partition."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: dict[FetchWaiter, None] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def join(self, waiter: FetchWaiter) -> None:
        """Tell `waiter` about every byte from now on."""
        self._waiting[waiter] = None

    def leave(self, waiter: FetchWaiter) -> None:
        """Stop telling it; unknown ones are ignored."""
        self._waiting.pop(waiter, None)

    def on_bytes(self, count: int) -> None:
        """Tell all of them that `count` more bytes are readable."""
        for waiter in self._waiting:
            waiter.on_bytes(count)

    def wake_all(self) -> None:
        """Have all of them look again: the partition is not what it was."""
        for waiter in self._waiting:
            waiter.wake()
