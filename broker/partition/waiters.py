"""Fetches that wait for data: each counts the bytes that became readable, none of them polls.

A waiter stands at every partition of its fetch. When a high watermark moves, its partition tells
its waiters how many bytes that made readable, and those who read only what is committed how many
bytes became stable; the one that has enough is woken, and so is everybody when the partition fails
or goes away. A waiter that is woken looks again and leaves.
"""

import asyncio
from typing import Protocol


class Watcher(Protocol):
    """Who hears of everything that changes a partition's answers: a partition of a session."""

    def on_bytes(self, readable: int, stable: int) -> None:
        """Hear how many more bytes are readable, and how many are stable."""

    def wake(self) -> None:
        """Hear that the partition is not what it was."""

    @property
    def is_awaited(self) -> bool:
        """Whether a client waits for what it hears."""


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

    __slots__ = ("_committed", "_waiting", "_watching")

    def __init__(self) -> None:
        self._waiting: dict[FetchWaiter, None] = {}
        self._watching: dict[Watcher, None] = {}
        self._committed: dict[FetchWaiter, None] = {}

    def __len__(self) -> int:
        return len(self._waiting) + len(self._committed) + len(self._watching)

    @property
    def is_awaited(self) -> bool:
        """Whether a fetch waits for news of the partition at this moment."""
        if self._waiting or self._committed:
            return True
        return any(each.is_awaited for each in self._watching)

    def join(self, waiter: FetchWaiter, *, committed: bool = False) -> None:
        """Tell `waiter` about every byte from now on; if `committed`, about every stable one."""
        (self._committed if committed else self._waiting)[waiter] = None

    def leave(self, waiter: FetchWaiter) -> None:
        """Stop telling it; unknown ones are ignored."""
        self._waiting.pop(waiter, None)
        self._committed.pop(waiter, None)

    def watch(self, watcher: Watcher) -> None:
        """Tell `watcher` about every change from now on."""
        self._watching[watcher] = None

    def unwatch(self, watcher: Watcher) -> None:
        """Stop telling it; unknown ones are ignored."""
        self._watching.pop(watcher, None)

    def on_bytes(self, readable: int, stable: int) -> None:
        """Tell all of them how many more bytes are readable, and how many are stable."""
        for waiter in self._waiting:
            waiter.on_bytes(readable)
        if stable:
            for waiter in self._committed:
                waiter.on_bytes(stable)
        for watcher in tuple(self._watching):  # who is told may leave
            watcher.on_bytes(readable, stable)

    def wake_all(self) -> None:
        """Have all of them look again: the partition is not what it was."""
        for waiters in (self._waiting, self._committed):
            for waiter in waiters:
                waiter.wake()
        for watcher in tuple(self._watching):
            watcher.wake()
