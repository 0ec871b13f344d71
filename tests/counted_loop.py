"""A loop that counts its work: what one client has the others wait for, the same on any machine.

A client's turn comes once in each turn of the loop, so it waits for as long as the longest of them.
What a turn costs is counted in calls, of Python's functions and of C's, as its profiler counts
them. A call stands for some ten bytecodes, of which a slow core does 10 to 20 million a second: so
`CALLS_MAX` calls take 15 to 30 ms. Not counted: what one call in C does to many
things (to sort names, to copy bytes). Threads are not counted either: so a test's client is one.
"""

import asyncio
import cProfile
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

from typing_extensions import override

CALLS_MAX = 30_000
"""Calls of one turn of the loop, whatever clients ask for."""


class CountedLoop(asyncio.SelectorEventLoop):
    """Counts the calls of its turns while `counting`."""

    def __init__(self) -> None:
        super().__init__()
        self._is_counting = False
        self._profile: cProfile.Profile | None = None  # of the turn that runs
        self.longest = 0
        """Calls of the longest turn that was counted."""
        self.where: list[tuple[int, str]] = []
        """What that turn called most: times and name, for who has to find out."""

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Count the turns that begin inside of the block, the last one as far as the block goes."""
        self.longest, self.where = 0, []
        self._is_counting = True
        try:
            yield
        finally:
            self._is_counting = False
            self._end_turn()

    @override
    def _run_once(self) -> None:
        if self._is_counting:
            self._profile = cProfile.Profile(subcalls=False)
            self._profile.enable()
        try:
            super()._run_once()  # type: ignore[misc]  # of asyncio's base class, not in typeshed
        finally:
            self._end_turn()

    def _end_turn(self) -> None:
        profile, self._profile = self._profile, None
        if profile is None:
            return
        profile.disable()
        entries = profile.getstats()
        calls = sum(entry.callcount for entry in entries)
        if calls > self.longest:
            self.longest = calls
            most = sorted(entries, key=lambda entry: -entry.callcount)[:8]
            self.where = [(entry.callcount, _name(entry.code)) for entry in most]


def _name(code: Any) -> str:
    return code if isinstance(code, str) else f"{code.co_filename}:{code.co_name}"


def run_counted(story: Callable[[CountedLoop], Awaitable[None]], *, timeout_s: float = 60) -> None:
    """Run a story on a loop that counts."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, CountedLoop)
        async with asyncio.timeout(timeout_s):
            await story(loop)

    with asyncio.Runner(loop_factory=CountedLoop) as runner:
        runner.run(main())


def calls_of(work: Callable[[], object]) -> int:
    """Return how many calls a piece of work makes."""
    profile = cProfile.Profile(subcalls=False)
    profile.enable()
    try:
        work()
    finally:
        profile.disable()
    return sum(entry.callcount for entry in profile.getstats())
