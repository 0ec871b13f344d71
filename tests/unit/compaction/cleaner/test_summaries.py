"""Key summaries go from log to log."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import TypeVar

from compaction.cleaner.config import CleanerConfig
from compaction.cleaner.summaries import Summaries

T = TypeVar("T")
SMALL = CleanerConfig(dedupe_buffer_bytes=24 * 101)
LARGE = CleanerConfig(dedupe_buffer_bytes=24 * 1009)


class Counted:
    """Runs work here, and says how much of it there was."""

    def __init__(self) -> None:
        self.made = 0

    def __call__(self, work: Callable[[], T], /) -> Awaitable[T]:
        self.made += 1
        return self._now(work)

    async def _now(self, work: Callable[[], T]) -> T:
        return work()


def run(story: Callable[[Summaries, Counted], Coroutine[None, None, None]]) -> None:
    counted = Counted()
    asyncio.run(story(Summaries(counted), counted))


def test_one_that_was_given_back_is_taken_again() -> None:
    async def story(summaries: Summaries, counted: Counted) -> None:
        first, second = await summaries.take(SMALL), await summaries.take(SMALL)
        assert first is not second
        summaries.give_back(first, SMALL)
        assert await summaries.take(SMALL) is first
        assert counted.made == 2

    run(story)


def test_what_is_dropped_is_made_anew() -> None:
    async def story(summaries: Summaries, counted: Counted) -> None:
        first = await summaries.take(SMALL)
        summaries.give_back(first, SMALL)
        summaries.drop()
        assert await summaries.take(SMALL) is not first
        assert counted.made == 2

    run(story)


def test_another_size_needs_another_one() -> None:
    async def story(summaries: Summaries, _: Counted) -> None:
        small = await summaries.take(SMALL)
        summaries.give_back(small, SMALL)
        large = await summaries.take(LARGE)
        assert (small.slots, large.slots) == (101, 1009)
        other = await summaries.take(LARGE)
        summaries.give_back(small, SMALL)  # it was in use when the config changed
        summaries.give_back(other, LARGE)
        assert await summaries.take(LARGE) is other
        assert (await summaries.take(LARGE)).slots == 1009

    run(story)
