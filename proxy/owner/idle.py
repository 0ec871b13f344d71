"""Streams of which nothing is asked are let go: each costs memory, a segment and a lock.

DistributedLog has no such setting: there a proxy keeps what it owns until it stops, or an operator
or a balancer moves it.
"""

import asyncio
from collections.abc import Callable, Coroutine
from itertools import islice
from typing import Any

from tailrace.core.runtime.clock import Clock
from tailrace.core.runtime.forever import Forever
from tailrace.core.runtime.tasks import Tasks, together


class LastAsked:
    """When something was asked of each stream last. Pure.

    Shape: in the order of these times. Unit: seconds of a clock that never goes back.
    """

    __slots__ = ("_at_s", "_idle_s")

    def __init__(self, idle_s: float) -> None:
        self._at_s: dict[str, float] = {}
        self._idle_s = idle_s

    def asked(self, stream: str, now_s: float) -> None:
        """Take note of a request. Cost: constant."""
        self._at_s.pop(stream, None)
        self._at_s[stream] = now_s

    def forget(self, stream: str) -> None:
        """Take note that the stream is gone."""
        self._at_s.pop(stream, None)

    def due_s(self, now_s: float) -> float:
        """Return when a stream is idle first, as things are; one that comes now is not before."""
        oldest_s = next(iter(self._at_s.values()), now_s)
        return oldest_s + self._idle_s

    def idle(self, now_s: float, count: int) -> list[str]:
        """Return the first `count` streams that are idle, the longest first."""
        first = islice(self._at_s.items(), count)
        return [stream for stream, at_s in first if at_s + self._idle_s <= now_s]


class IdleRelease:
    """Lets idle streams go in the background, some side by side. All calls come from the loop.

    One of which something runs or waits counts as asked.
    """

    def __init__(
        self,
        idle_ms: int,
        at_once: int,
        clock: Clock,
        release: Callable[[str], Coroutine[Any, Any, None]],
    ) -> None:
        """`idle_ms` 0: let none go.

        `release`: complete a stream and let it go, unless something of it runs; must not raise.
        """
        self._last = LastAsked(idle_ms / 1000)
        self._at_once = at_once
        self._clock = clock
        self._release = release
        self._tasks = Tasks("proxy.streams")
        self._is_on = idle_ms > 0
        if self._is_on:
            self._tasks.start(Forever("proxy.streams.idle").run(self._step), "release")

    def asked(self, stream: str, now_s: float) -> None:
        """Take note of a request."""
        if self._is_on:
            self._last.asked(stream, now_s)

    def forget(self, stream: str) -> None:
        """Take note that the proxy has the stream no more."""
        self._last.forget(stream)

    async def close(self) -> None:
        """Let no more go; those whose turn has come go anyway. Idempotent."""
        await self._tasks.close()

    async def _step(self) -> None:
        """Let those go that are idle, or wait until one is."""
        now_s = self._clock.monotonic_s()
        idle = self._last.idle(now_s, self._at_once)
        if not idle:
            await asyncio.sleep(self._last.due_s(now_s) - now_s)
            return
        for stream in idle:
            self._last.asked(stream, now_s)
        await together([self._release(stream) for stream in idle])
