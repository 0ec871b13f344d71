"""The loop that counts: what it counts, and what it leaves out."""

import asyncio

from tests.counted_loop import CountedLoop, run_counted

WORK = 10_000


def _work(calls: int) -> None:
    for _ in range(calls):
        len("")


def test_the_longest_turn_has_all_that_happened_in_it_and_nothing_of_the_next() -> None:
    async def story(loop: CountedLoop) -> None:
        with loop.counting():
            await asyncio.sleep(0)
            loop.call_soon(_work, WORK)
            loop.call_soon(_work, WORK)
            loop.call_soon(loop.call_soon, _work, WORK)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        assert 2 * WORK <= loop.longest < 3 * WORK
        assert loop.where[0][1] == "<built-in method builtins.len>"

    run_counted(story)


def test_work_in_pieces_is_as_long_as_its_longest_piece() -> None:
    async def story(loop: CountedLoop) -> None:
        with loop.counting():
            for _ in range(10):
                _work(WORK)
                await asyncio.sleep(0)
        assert loop.longest < 2 * WORK

    run_counted(story)


def test_threads_and_what_is_outside_of_the_block_do_not_count() -> None:
    async def story(loop: CountedLoop) -> None:
        _work(WORK)
        with loop.counting():
            await asyncio.to_thread(_work, WORK)
        _work(WORK)
        await asyncio.sleep(0)
        assert loop.longest < WORK

    run_counted(story)
