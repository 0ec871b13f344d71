"""Room for records that are not answered: bytes of all writers of a client."""

import asyncio
from collections.abc import Sequence
from typing import Final

from tailrace.core.runtime.budget import Budget

RECORD_OVERHEAD_BYTES: Final = 256
"""What a record takes in memory beside its payload."""


class Room:
    """`buffer.memory` of one client. Calls that wait, wait in line."""

    def __init__(self, limit: int) -> None:
        self.budget = Budget("proxy_client.buffer.bytes", limit)
        self._is_closed = False
        self._waiting: set[asyncio.Event] = set()

    async def wait(self) -> None:
        """Return when there is room, or the client is closed. Cancel: nothing was taken."""
        while self.budget.full and not self._is_closed:
            free = asyncio.Event()
            self._waiting.add(free)
            wake = free.set
            self.budget.when_free(wake)
            try:
                await free.wait()
            finally:
                self._waiting.discard(free)
                self.budget.forget(wake)

    def take(self, payload: bytes) -> None:
        """Count a record in."""
        self.budget.take(len(payload) + RECORD_OVERHEAD_BYTES)

    def give(self, payloads: Sequence[bytes]) -> None:
        """Count records out."""
        self.budget.give(sum(map(len, payloads)) + RECORD_OVERHEAD_BYTES * len(payloads))

    def close(self) -> None:
        """Wake all calls that wait."""
        self._is_closed = True
        for free in self._waiting:
            free.set()
