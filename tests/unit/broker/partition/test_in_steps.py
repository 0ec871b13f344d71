"""Work in steps: in the order of its key, some at once, and others in between."""

import asyncio
import logging
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.broker.partition.in_steps import AT_ONCE, InSteps
from tests.unit.broker.loops import in_loop, turns, until


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3 * AT_ONCE)), max_size=8))
def test_pieces_are_in_order_for_each_key_and_never_more_than_so_many_in_a_step(
    works: list[tuple[int, int]],
) -> None:
    @in_loop
    async def check() -> None:
        steps = InSteps()
        done: list[tuple[int, int, int]] = []

        def work(key: int, number: int, count: int) -> Iterator[None]:
            for piece in range(count):
                done.append((key, number, piece))
                yield

        for number, (key, count) in enumerate(works):
            before = len(done)
            steps.start(key, work(key, number, count))
            assert len(done) - before <= AT_ONCE
        while any(steps.is_busy(key) for key in range(3)):
            before = len(done)
            await asyncio.sleep(0)
            assert len(done) - before <= AT_ONCE
        for key in range(3):
            assert [each for each in done if each[0] == key] == [
                (key, number, piece)
                for number, (of, count) in enumerate(works)
                if of == key
                for piece in range(count)
            ]

    check()


@in_loop
async def test_a_bug_costs_its_own_work_only(caplog: pytest.LogCaptureFixture) -> None:
    steps, done = InSteps(), []

    def bad() -> Iterator[None]:
        yield
        raise ZeroDivisionError

    def good() -> Iterator[None]:
        done.append(1)
        yield

    with caplog.at_level(logging.ERROR):
        steps.start("k", bad())
        steps.start("k", good())
        await turns()
    assert not steps.is_busy("k")
    assert done == [1]
    assert [record.message for record in caplog.records] == ["work failed key=k"]


@in_loop
async def test_work_joins_what_its_key_has_and_other_keys_do_not_wait() -> None:
    steps, done = InSteps(), []

    def work(name: str, count: int) -> Iterator[None]:
        for _ in range(count):
            yield
        done.append(name)

    steps.start("a", work("a1", 2 * AT_ONCE))
    steps.start("a", work("a2", 1))
    steps.start("b", work("b", 1))
    assert done == ["b"]
    assert (steps.is_busy("a"), steps.is_busy("b")) == (True, False)
    await until(lambda: not steps.is_busy("a"))
    assert done == ["b", "a1", "a2"]
