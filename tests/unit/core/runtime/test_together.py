import asyncio

import pytest

from tailrace.core.errors import NoNode, Unavailable
from tailrace.core.runtime.tasks import both, together


async def linger() -> str:
    """Need a while to end when cancelled."""
    try:
        await asyncio.Event().wait()
    finally:
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    return "never"


async def linger_once() -> str:
    await asyncio.sleep(0)
    return "at last"


def test_what_they_return_and_the_first_error() -> None:
    async def story() -> None:
        async def one(value: int) -> int:
            return value

        async def fail_with(error: Exception) -> int:
            raise error

        assert await together([one(1), one(2)]) == [1, 2]
        assert await together([]) == []
        assert await both(one(1), linger_once()) == (1, "at last")
        with pytest.raises(NoNode):
            await together([one(1), fail_with(NoNode("/a")), fail_with(Unavailable("away"))])

    asyncio.run(story(), debug=True)


@pytest.mark.parametrize("turns", range(5))
def test_a_cancel_is_not_lost_to_an_error_of_the_same_moment(turns: int) -> None:
    """Else an owner that asks for its lock again goes on, and its release waits for ever."""

    async def story() -> None:
        begin = asyncio.Event()

        async def fail() -> str:
            await begin.wait()
            raise Unavailable("away")

        caller = asyncio.create_task(together([linger(), fail()]))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        begin.set()
        for _ in range(turns):
            await asyncio.sleep(0)
        assert not caller.done()
        caller.cancel()
        with pytest.raises(asyncio.CancelledError):
            await caller

    asyncio.run(story(), debug=True)
