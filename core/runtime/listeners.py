"""Telling those who listen: what one of them raises costs nobody else what he was to hear.

A listener that raises in the middle of a loop would keep the others from it, and with them whoever
waits for what comes behind the loop: a watch for the session's end, an answer for its caller.
"""

import asyncio
from collections.abc import Callable
from typing import Any

from tailrace.core.runtime.task_health import task_health


def tell(owner: str, listener: Callable[..., object], *arguments: Any) -> None:
    """Call a listener. Errors: none: the loop's exception handler and `task_health` hear of it.

    `owner`: who tells, of a closed set. Called on the loop.
    """
    try:
        listener(*arguments)
    except Exception as error:  # noqa: BLE001 - the fault boundary of a callback, as a loop's
        loop = asyncio.get_running_loop()
        health = task_health(loop)
        health.note(health.record(owner), error, "a listener")
        loop.call_exception_handler({"message": f"{owner}: a listener failed", "exception": error})
