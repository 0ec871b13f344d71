"""Hearing of logs that come and go in a namespace."""

import asyncio
from collections.abc import Callable
from typing import NamedTuple, Self

from tailrace.core.errors import ReadCancelled
from tailrace.core.log.log_list_watch import LogListListener
from tailrace.core.log.log_list_watch import LogListWatch as CoreWatch


class LogListChange(NamedTuple):
    """The list of logs as it is now, and what is new since the change before. All are sorted."""

    names: tuple[str, ...]
    added: tuple[str, ...]
    removed: tuple[str, ...]


class LogListWatch:
    """Watches one level of a namespace; `Namespace.watch_logs` opens it.

    The first change has every name as added. Changes that come faster than they are taken become
    one: the watch holds one list, however slow its reader is. While ZooKeeper does not answer no
    change comes; then the list is read again. Source: NamespaceListener.
    """

    def __init__(
        self,
        start: Callable[[LogListListener], CoreWatch],
        on_closed: Callable[["LogListWatch"], None],
    ) -> None:
        self._told: tuple[str, ...] | None = None
        self._latest: tuple[str, ...] | None = None
        self._moved = asyncio.Event()
        self._is_closed = False
        self._on_closed = on_closed
        self._watch = start(self._hear)

    def _hear(self, names: list[str]) -> None:
        self._latest = tuple(names)
        self._moved.set()

    async def read_change(self, timeout_s: float | None = None) -> LogListChange | None:
        """Return the next change, once there is one; None when the time is over.

        Unit: seconds; None: for ever. Errors: ReadCancelled once it is closed.
        Cancel: nothing is lost.
        """
        try:
            async with asyncio.timeout(timeout_s):
                while self._latest in (None, self._told) and not self._is_closed:
                    self._moved.clear()
                    await self._moved.wait()
        except TimeoutError:
            return None
        if self._is_closed or self._latest is None:
            raise ReadCancelled("the watch is closed")
        before, now = self._told or (), self._latest
        self._told = now
        added, removed = set(now) - set(before), set(before) - set(now)
        return LogListChange(now, tuple(sorted(added)), tuple(sorted(removed)))

    def __aiter__(self) -> Self:
        """Iterate over the changes until the watch is closed."""
        return self

    async def __anext__(self) -> LogListChange:
        """Return the next change. Cancel: nothing is lost."""
        try:
            change = await self.read_change()
        except ReadCancelled:
            raise StopAsyncIteration from None
        assert change is not None, "it waits for ever"
        return change

    async def close(self) -> None:
        """End the watch, and the calls that wait for it. Idempotent. Errors: none."""
        self._is_closed = True
        self._moved.set()
        try:
            await self._watch.close()
        finally:
            self._on_closed(self)
