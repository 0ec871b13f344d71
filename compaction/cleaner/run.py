"""Where CPU work of the cleaner is done: in a thread of the pool, or, in tests, here."""

from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

T = TypeVar("T")


class Run(Protocol):
    """Runs a function elsewhere, or here."""

    def __call__(self, work: Callable[[], T], /) -> Awaitable[T]:
        """Return what it gives, or raise what it raises."""
