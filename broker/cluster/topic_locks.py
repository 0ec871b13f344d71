"""Who may change which topic: names that collide one at a time, and not many large changes at once.

A change of one topic waits for no other topic's: a coordinator that needs its internal topic, or
has to know all topics before it serves, does not wait behind ten thousand new partitions.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from tailrace.broker.cluster.names import INTERNAL_TOPICS, collision_key

LARGE: Final = 64
"""Partitions of a change above which it counts as large: their streams take a while."""
LARGE_AT_ONCE: Final = 2
SMALL_AT_ONCE: Final = 8
"""Changes of topics at the same time; internal topics' go first, and are not counted."""


class TopicLocks:
    """The locks of one registry. All calls come from the loop."""

    def __init__(self) -> None:
        self._locks: dict[str, asyncio.Lock] = {}
        self._users: dict[str, int] = {}
        self._small = asyncio.Semaphore(SMALL_AT_ONCE)
        self._large = asyncio.Semaphore(LARGE_AT_ONCE)

    def is_held(self, name: str) -> bool:
        """Whether something is done to a topic, or to one whose name collides with it."""
        lock = self._locks.get(collision_key(name))
        return lock is not None and lock.locked()

    @asynccontextmanager
    async def of(self, name: str) -> AsyncIterator[None]:
        """Let nothing else be done to a topic in the block."""
        key = collision_key(name)
        lock = self._locks.setdefault(key, asyncio.Lock())
        self._users[key] = self._users.get(key, 0) + 1
        try:
            async with lock:
                yield
        finally:
            self._users[key] -= 1
            if not self._users[key]:
                del self._users[key], self._locks[key]

    @asynccontextmanager
    async def changing(self, name: str, partitions: int = 0) -> AsyncIterator[None]:
        """Let nothing else be done to a topic, of which `partitions` are made or deleted."""
        async with self.of(name):
            if name in INTERNAL_TOPICS:
                yield
                return
            async with self._large if partitions > LARGE else self._small:
                yield
