"""Cancels that must not be lost, whatever else fails in the same moment."""

import asyncio
from collections.abc import Callable, Coroutine
from itertools import count
from typing import Any

from tailrace.core.errors import CoreError


async def cancelled_at_every_turn(operation: Callable[[], Coroutine[Any, Any, Any]]) -> CoreError:
    """Run what fails again and again, each time cancelled a turn of the loop later.

    Return its error, once it fails before its cancel comes. It must begin in the same state again.
    """
    for turns in count():
        task = asyncio.create_task(operation())
        for _ in range(turns):
            await asyncio.sleep(0)
        if task.done():
            error = task.exception()
            assert isinstance(error, CoreError)
            return error
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled(), f"cancelled in turn {turns}, it raised {task.exception()!r}"
    raise AssertionError("never")
