"""Answers of handlers, changed on their way: another response, a later one, none at all.

A handler answers with a response, a coroutine of one, or a `Deferred`; what comes out is of the
same kind wherever it can be, so that the order of requests stays what it was.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeAlias

from tailrace.broker.handlers import Deferred

Change: TypeAlias = Callable[[Any], Any]
"""Makes another response of one; may raise CloseConnection. None is no answer."""
Hold: TypeAlias = "Callable[[], asyncio.Future[None]]"
"""Begins to hold an answer back; done when it may go."""


def changed(answer: Any, change: Change) -> Any:
    """Return an answer whose response is changed. Errors: those of `change`, now or later."""
    if type(answer) is Deferred:
        return Deferred(answer.future, lambda: change(answer.build()), answer.timeout_s)
    if asyncio.iscoroutine(answer):
        return _changed(answer, change)
    return change(answer)


def held(answer: Any, hold: Hold, hold_s: float) -> Any:
    """Return an answer that is held back once it is there. `hold_s`: the longest, for deadlines."""
    if type(answer) is not Deferred:
        return _held(answer, hold)
    later: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    answer.future.add_done_callback(lambda _: hold().add_done_callback(lambda _: _settle(later)))
    timeout_s = None if answer.timeout_s is None else answer.timeout_s + hold_s
    return Deferred(later, answer.build, timeout_s)


async def _changed(answer: Coroutine[Any, Any, Any], change: Change) -> Any:
    return change(await answer)


async def _held(answer: Any, hold: Hold) -> Any:
    response = await answer if asyncio.iscoroutine(answer) else answer
    await hold()
    return response


def _settle(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)
