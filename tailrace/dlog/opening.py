"""What every `open_...` returns: something to await, or to use in `async with`."""

from collections.abc import Coroutine, Generator
from types import TracebackType
from typing import Any, Generic, Protocol, TypeVar


class Closeable(Protocol):
    """What is open until it is closed."""

    async def close(self) -> None:
        """Close it."""


T = TypeVar("T", bound=Closeable)


class Opening(Generic[T]):
    """An opening that has not begun: `await` it, or write `async with`, which closes it at the end.

    Use it once. Errors, cancel, cost: those of the call that returned it.
    """

    def __init__(self, work: Coroutine[Any, Any, T]) -> None:
        self._work = work
        self._opened: T | None = None

    def __await__(self) -> Generator[Any, Any, T]:
        """Open it; the caller closes it."""
        return self._work.__await__()

    async def __aenter__(self) -> T:
        """Open it until the end of the block."""
        self._opened = await self._work
        return self._opened

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close it. Errors: as its `close`."""
        if self._opened is not None:
            await self._opened.close()
