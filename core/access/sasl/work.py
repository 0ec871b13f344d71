"""How an exchange does what takes milliseconds: at once, or in a thread beside a loop."""

from collections.abc import Awaitable, Callable
from typing import TypeAlias

Work: TypeAlias = Callable[[Callable[[], bytes]], Awaitable[bytes]]
"""Errors: those of what is done, OSError among them, and CoreError."""


async def at_once(work: Callable[[], bytes]) -> bytes:
    """Do it now: nothing else waits."""
    return work()
