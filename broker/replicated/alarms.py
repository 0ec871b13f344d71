"""Wakes state machines at their deadlines: one heap, one task that sleeps until the first."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from tailrace.broker.replicated.deadlines import Deadlines
from tailrace.broker.replicated.effects import NEVER
from tailrace.core.runtime.clock import Clock
from tailrace.core.runtime.forever import Forever

RETRY_MS: Final = 10_000
"""A key whose deadline could not be acted on is woken again after so long."""


class Alarms:
    """The deadlines of every key of one service. All calls come from the loop."""

    def __init__(self, owner: str, clock: Clock, on_due: Callable[[str], None]) -> None:
        """`on_due` hears of each key whose deadline has come; what it raises costs that key only.

        `owner`: the service, for people.
        """
        self._forever = Forever(f"{owner}.deadlines")
        self._clock = clock
        self._on_due = on_due
        self._deadlines = Deadlines()
        self._sooner = asyncio.Event()

    def schedule(self, key: str, at_ms: int) -> None:
        """Wake `key` no later than `at_ms`. Unit: monotonic ms."""
        if self._deadlines.schedule(key, at_ms):
            self._sooner.set()

    def fire_due(self) -> None:
        """Act on every deadline that has passed. Errors: none."""
        now_ms = self._now_ms()
        for key in self._deadlines.pop_due(now_ms):
            with self._forever.item(key) as item:
                self._on_due(key)
            if item.has_failed:
                self._deadlines.schedule(key, now_ms + RETRY_MS)

    async def run(self) -> None:
        """Sleep until the next deadline, or until an earlier one is set, for ever."""
        await self._forever.run(self._turn)

    async def _turn(self) -> None:
        self.fire_due()
        self._sooner.clear()
        next_ms = self._deadlines.next_ms()
        left_s = None if next_ms == NEVER else (next_ms - self._now_ms()) / 1000
        with suppress(TimeoutError):
            async with asyncio.timeout(left_s):
                await self._sooner.wait()

    def _now_ms(self) -> int:
        return int(self._clock.monotonic_s() * 1000)
