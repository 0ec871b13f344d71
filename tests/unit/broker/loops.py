"""Tests that are coroutines: each in a loop of its own, with a bound on its time."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Any


def in_loop(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Run an async test to its end."""

    @wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        async def body() -> None:
            async with asyncio.timeout(20):
                await test(*args, **kwargs)

        asyncio.run(body())

    return run


async def turns(count: int = 5) -> None:
    """Let the loop go round a few times: everything that needs no timer has happened then."""
    for _ in range(count):
        await asyncio.sleep(0)


async def until(condition: Callable[[], bool]) -> None:
    """Wait for something that happens in another task; the test's own bound ends the wait."""
    while not condition():  # noqa: ASYNC110 - what is waited for has no event of its own
        await asyncio.sleep(0.001)
