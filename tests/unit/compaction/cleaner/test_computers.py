"""Computers go from log to log, and those that nobody works with end."""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable

import pytest

from tailrace.compaction.cleaner.computers import IDLE_S, Computers, ProcessComputer
from tailrace.compaction.cleaner.config import CleanerConfig
from tailrace.compaction.cleaner.errors import CorruptBatch
from tailrace.compaction.cleaner.outcome import NEW
from tailrace.compaction.cleaner.walks import Walks
from tailrace.core.errors import Unavailable
from tailrace.core.runtime.child_process import ChildFailed
from tailrace.core.runtime.clock import ManualClock
from tests.unit.compaction.cleaner.computing import InlineComputer
from tests.unit.compaction.cleaner.support import FakeLog

SMALL = CleanerConfig(dedupe_buffer_bytes=24 * 101)
LARGE = CleanerConfig(dedupe_buffer_bytes=24 * 1009)


def run(story: Callable[[Computers, ManualClock], Awaitable[None]]) -> None:
    async def told() -> None:
        clock = ManualClock()
        await story(Computers(InlineComputer, clock), clock)

    asyncio.run(told())


def test_one_that_was_given_back_is_taken_again() -> None:
    async def story(computers: Computers, _: ManualClock) -> None:
        first, second = await computers.take(SMALL), await computers.take(SMALL)
        assert first is not second
        await computers.give_back(first, SMALL)
        assert await computers.take(SMALL) is first

    run(story)


def test_one_that_was_idle_for_long_ends() -> None:
    async def story(computers: Computers, clock: ManualClock) -> None:
        old, new = await computers.take(SMALL), await computers.take(SMALL)
        assert isinstance(old, InlineComputer)
        assert isinstance(new, InlineComputer)
        await computers.give_back(old, SMALL)
        clock.advance_ms(1)
        await computers.give_back(new, SMALL)
        clock.advance_ms(int(IDLE_S * 1000) - 1)
        await computers.drop_idle()
        assert (old.is_closed, new.is_closed) == (True, False)
        await computers.drop()
        assert new.is_closed

    run(story)


def test_another_size_needs_another_one() -> None:
    async def story(computers: Computers, _: ManualClock) -> None:
        used, free = await computers.take(SMALL), await computers.take(SMALL)
        await computers.give_back(free, SMALL)
        large = await computers.take(LARGE)
        await computers.give_back(used, SMALL)  # it was in use when the config changed
        for small in (used, free):
            assert isinstance(small, InlineComputer)
            assert small.is_closed
        await computers.give_back(large, LARGE)
        assert await computers.take(LARGE) is large

    run(story)


def filled() -> FakeLog:
    log = FakeLog()
    log.append((b"k", b"1"), (b"large", b"v" * 5000))
    log.append((b"other", b"2"))
    log.append((b"k", b"3"))
    return log


def walked(log: FakeLog) -> tuple[list[int], list[bytes], int]:
    """Return what another process makes of the log: what stays, and the keys."""

    async def told() -> tuple[list[int], list[bytes], int]:
        computer = ProcessComputer(24 * 101, 0.9)
        batches = [memoryview(batch) for batch in log.batches()]
        try:
            await computer(Walks.begin, 0, [], 4)
            assert await computer(Walks.add, batches)
            keys = (await computer(Walks.built)).keys
            await computer(Walks.begin_filter, 1000, 2**31 - 1, {}, [])
            await computer(Walks.begin_segment, 5)
            left = await computer(Walks.filter, batches)
            return left.places, list(map(bytes, left.batches(batches))), keys
        finally:
            await computer.close()

    return asyncio.run(told())


def test_another_process_makes_of_a_log_what_this_one_would() -> None:
    log = filled()
    places, batches, keys = walked(log)
    log.roll()
    log.clean()
    assert batches == log.batches()
    assert (places, keys) == ([NEW, 1, 2], 3)


def test_what_is_wrong_with_a_batch_comes_back_as_it_was_raised() -> None:
    log = filled()
    broken = bytearray(log.batches()[1])
    broken[-1] ^= 1

    async def told() -> None:
        computer = ProcessComputer(24 * 101, 0.9)
        try:
            await computer(Walks.begin, 0, [], 4)
            with pytest.raises(CorruptBatch, match="batch at offset 2") as caught:
                await computer(Walks.add, [log.batches()[0], broken])
            assert (caught.value.index, caught.value.offset) == (1, 2)
            with pytest.raises(ChildFailed, match="_filter"):  # our bug: the second walk first
                await computer(Walks.filter, log.batches())
            assert (await computer(Walks.built)).keys == 0
        finally:
            await computer.close()

    asyncio.run(told())


def test_a_process_that_is_killed_is_told_and_costs_nobody_more() -> None:
    async def told() -> None:
        computer = ProcessComputer(24 * 101, 0.9)
        await computer(Walks.begin, 0, [], 4)
        os.kill(computer.pid, signal.SIGKILL)
        for _ in range(2):
            with pytest.raises(Unavailable, match=f"process {computer.pid}"):
                await computer(Walks.built)
        await computer.close()

    asyncio.run(told())
