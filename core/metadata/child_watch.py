"""Hears of what other processes do below one node of the metadata store: to topics, configs, users.

One watch on the list of children, one on each child. A watch fires once and may fire for nothing,
so what fired is read again and watched anew; after a lost session that is everything.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

from tailrace.core.errors import CoreError, CorruptData, NoNode
from tailrace.core.metadata.store import MetadataStore, WatchEvent
from tailrace.core.runtime.forever import Forever
from tailrace.core.runtime.tasks import Tasks, together

logger = logging.getLogger(__name__)

PAUSE_S: Final = 1.0
"""Between attempts while the store does not answer, at most."""
RETRY_S: Final = 30.0
"""After so long, what could not be acted on is tried again."""


class ChildWatch:
    """Follows the children of a node from `start` to `close`. All calls come from the loop."""

    def __init__(
        self,
        store: MetadataStore,
        parent: str,
        note: Callable[[str], Awaitable[None]],
        known: Iterable[str],
        at_once: int = 1,
    ) -> None:
        """`note`: reads the child of a name, there or not, and acts on it. Errors: CoreError.

        `known`: children that the caller has read, and that may go before there is a watch.
        `at_once`: how many children are read, and noted, side by side.
        """
        self._store = store
        self._parent = parent
        self._note = note
        self._tasks = Tasks("child_watch")
        self._forever = Forever(f"child_watch.{parent.rpartition('/')[2]}", pause_s_max=PAUSE_S)
        self._at_once = at_once
        self._watched: set[str] = set()
        self._unread = set(known)
        self._is_list_unread = True
        self._wake = asyncio.Event()

    def start(self) -> None:
        """Begin to follow; everything is read once, in the background."""
        self._wake.set()
        self._tasks.start(self._forever.run(self._follow), "follow")

    async def close(self) -> None:
        """Follow no more. Idempotent."""
        await self._tasks.close()

    def _on_list_changed(self, _path: str, _event: WatchEvent) -> None:
        self._is_list_unread = True
        self._wake.set()

    def _on_child_changed(self, path: str, _event: WatchEvent) -> None:
        name = path.rpartition("/")[2]
        self._watched.discard(name)
        self._unread.add(name)
        self._wake.set()

    async def _follow(self) -> None:
        await self._wake.wait()
        self._wake.clear()
        try:
            await self._catch_up()
        except BaseException:
            self._wake.set()
            raise

    async def _catch_up(self) -> None:
        """Read what changed. Errors: CoreError leaves the rest for the next time.

        A child that cannot be acted on by a bug is left for later, and the others go on.
        """
        if self._is_list_unread:
            self._is_list_unread = False  # before reading: what changes meanwhile is read again
            try:
                names = await self._store.children(self._parent, self._on_list_changed)
            except BaseException:
                self._is_list_unread = True
                raise
            self._unread |= self._watched.symmetric_difference(names)
        all_acted_on = True
        names = sorted(self._unread)  # a change during the reads wakes it again
        for at in range(0, len(names), self._at_once):
            some = names[at : at + self._at_once]
            self._unread.difference_update(some)
            try:
                all_acted_on &= all(await together([self._is_acted_on(name) for name in some]))
            except BaseException:
                self._unread.update(some)
                raise
        if not all_acted_on:
            asyncio.get_running_loop().call_later(RETRY_S, self._wake.set)

    async def _is_acted_on(self, name: str) -> bool:
        """Read a child; return False if a bug keeps it from being acted on. Errors: CoreError."""
        try:
            await self._read(name)
        except CoreError:
            raise
        except Exception as error:  # noqa: BLE001 - noted
            self._unread.add(name)
            self._forever.failed(name, error)
            return False
        return True

    async def _read(self, name: str) -> None:
        """Watch a child, then have it read: what happens in between fires the watch."""
        if name not in self._watched:
            self._watched.add(name)
            try:
                await self._store.get(f"{self._parent}/{name}", self._on_child_changed)
            except NoNode:
                self._watched.discard(name)
            except BaseException:
                self._watched.discard(name)
                raise
        try:
            await self._note(name)
        except CorruptData as error:
            logger.warning("child_unreadable path=%s/%s error=%s", self._parent, name, error)
