"""Waiting at the end of a log until its owner in this process, bookies or the metadata tell."""

import asyncio
from typing import Protocol

from tailrace.core.log.segment_view import SegmentView
from tailrace.core.log.shared_entries import SharedEntries
from tailrace.core.log.tail_follower import TailFollower


class TailWatcher(Protocol):
    """What lets readers of this process know."""

    def on_tail_moved(self) -> None:
        """Wake up whoever waits for records: some were confirmed."""


class LogTail:
    """The end of one log, as this process hears of it."""

    __slots__ = ("_follower", "_poll_ms", "_waiting", "version")

    def __init__(self, shared: SharedEntries, poll_ms: int) -> None:
        """`poll_ms`: how long to wait at most for what another process writes."""
        self.version = 0
        """Rises with everything that may have made more readable."""
        self._poll_ms = poll_ms
        self._waiting: list[asyncio.Future[None]] = []
        self._follower = TailFollower(self.moved, shared)

    def moved(self) -> None:
        """Wake up whoever waits."""
        self.version += 1
        if self._waiting:
            waiting, self._waiting = self._waiting, []
            for waiter in waiting:
                if not waiter.done():
                    waiter.set_result(None)

    async def wait(
        self, seen_version: int, view: SegmentView | None, within_s: float | None, *, is_own: bool
    ) -> bool:
        """Wait until the version is another; tell whether it is.

        `is_own`: this process writes the log, and nothing happens that it does not hear of. Else
        the bookies are asked for the end of `view`, and the wait ends after `poll_ms`.
        """
        if self.version != seen_version:
            return True
        if not is_own:
            poll_s = self._poll_ms / 1000
            within_s = poll_s if within_s is None else min(within_s, poll_s)
            if view is not None and not view.ledger.is_closed:
                self._follower.follow(view, self._poll_ms)
        waiter = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        try:
            await asyncio.wait([waiter], timeout=within_s)
        finally:
            if not waiter.done():
                self._waiting.remove(waiter)
        return self.version != seen_version

    async def stop(self) -> None:
        """Ask bookies for nothing any more."""
        await self._follower.stop()
