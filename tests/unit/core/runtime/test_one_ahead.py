"""Getting one item ahead: all of them, in order, one at a time on its way, and none left behind."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

import pytest

from tailrace.core.runtime.one_ahead import one_ahead


class Source:
    """Items that come when the test lets them."""

    def __init__(self, count: int, fails_at: int = -1) -> None:
        self.asked: list[int] = []
        self.is_closed = False
        self.may_come = asyncio.Semaphore(0)
        self._count, self._fails_at = count, fails_at

    async def items(self) -> AsyncGenerator[int, None]:
        try:
            for number in range(self._count):
                self.asked.append(number)
                await self.may_come.acquire()
                if number == self._fails_at:
                    raise LookupError(str(number))
                yield number
        finally:
            self.is_closed = True


async def settled() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def test_everything_comes_in_order() -> None:
    async def main() -> None:
        source = Source(4)
        for _ in range(4):
            source.may_come.release()
        assert [each async for each in one_ahead(source.items())] == [0, 1, 2, 3]
        assert source.is_closed

    asyncio.run(main(), debug=True)


def test_nothing_to_come_is_an_end() -> None:
    async def main() -> None:
        assert [each async for each in one_ahead(Source(0).items())] == []

    asyncio.run(main(), debug=True)


def test_the_next_one_and_no_other_is_on_its_way_while_one_is_used() -> None:
    async def main() -> None:
        source = Source(4)
        async with aclosing(one_ahead(source.items())) as items:
            source.may_come.release()
            assert await anext(items) == 0
            await settled()
            assert source.asked == [0, 1]
            source.may_come.release()
            source.may_come.release()
            await settled()
            assert source.asked == [0, 1]  # it came, and waits to be taken
            assert await anext(items) == 1
            await settled()
            assert source.asked == [0, 1, 2]

    asyncio.run(main(), debug=True)


def test_an_error_comes_behind_the_items_before_it() -> None:
    async def main() -> None:
        source = Source(3, fails_at=1)
        source.may_come.release()
        source.may_come.release()
        items = one_ahead(source.items())
        assert await anext(items) == 0
        await settled()
        with pytest.raises(LookupError):
            await anext(items)
        assert source.is_closed

    asyncio.run(main(), debug=True)


@pytest.mark.parametrize("fails_at", [-1, 1])
def test_who_leaves_gives_up_what_is_on_its_way(fails_at: int) -> None:
    async def main() -> None:
        source = Source(3, fails_at)
        source.may_come.release()
        if fails_at == 1:
            source.may_come.release()  # it has failed by then, and nobody hears of it
        async with aclosing(one_ahead(source.items())) as items:
            assert await anext(items) == 0
            await settled()
        assert source.is_closed

    asyncio.run(main(), debug=True)


def test_a_cancelled_wait_ends_the_source() -> None:
    async def main() -> None:
        source = Source(1)
        items = one_ahead(source.items())
        waiting = asyncio.create_task(anext(items))
        await settled()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert source.is_closed

    asyncio.run(main(), debug=True)


def test_who_is_cancelled_again_while_the_source_ends_waits_for_that() -> None:
    async def main() -> None:
        is_closed = False
        may_end = asyncio.Event()

        async def items() -> AsyncGenerator[int, None]:
            nonlocal is_closed
            try:
                yield 0
                await asyncio.Event().wait()
            finally:
                await may_end.wait()
                is_closed = True

        async def use() -> None:
            async with aclosing(one_ahead(items())) as ahead:
                async for _ in ahead:
                    await asyncio.Event().wait()

        using = asyncio.create_task(use())
        for _ in range(3):
            await settled()
            using.cancel()
        await settled()
        assert not using.done()
        may_end.set()
        with pytest.raises(asyncio.CancelledError):
            await using
        assert is_closed

    asyncio.run(main(), debug=True)
