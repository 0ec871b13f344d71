"""Getting the next item while the one before is used."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TypeVar

T = TypeVar("T")


async def one_ahead(items: AsyncGenerator[T, None]) -> AsyncGenerator[T, None]:
    """Yield what `items` yields; while the caller has one, the next is on its way.

    Errors: those of `items`, each where it would come without this. Cancel, and a caller who leaves
    early (inside of `aclosing`): what is on its way is given up, and `items` is closed. Memory: one
    item more than without.
    """
    async with aclosing(items):
        coming = asyncio.create_task(_next(items))
        try:
            while found := await coming:
                coming = asyncio.create_task(_next(items))
                yield found[0]
        finally:
            await _give_up(coming)


async def _give_up(coming: "asyncio.Task[tuple[T] | None]") -> None:
    """End it, whatever it does. Cancel: once it has ended; else `items` could not be closed."""
    coming.cancel()
    cancelled: asyncio.CancelledError | None = None
    while not coming.done():
        try:
            await asyncio.wait([coming])
        except asyncio.CancelledError as error:
            cancelled = error
    if not coming.cancelled():
        coming.exception()  # nobody is to hear of it any more
    if cancelled is not None:
        raise cancelled


async def _next(items: AsyncGenerator[T, None]) -> tuple[T] | None:
    """Return the next item; None at the end."""
    try:
        return (await anext(items),)
    except StopAsyncIteration:
        return None
