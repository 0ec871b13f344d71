"""Hears of what other brokers do below one node of the metadata store: to topics, to configs.

One watch on the list of children, one on each child. A watch fires once and may fire for nothing,
so what fired is read again and watched anew; after a lost session that is everything.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

from core.errors import CoreError, CorruptData, NoNode
from core.metadata.store import MetadataStore, WatchEvent
from core.runtime.tasks import Tasks

logger = logging.getLogger(__name__)

PAUSE_S: Final = 1.0
"""Between attempts while the store does not answer."""


class ChildWatch:
    """Follows the children of a node from `start` to `close`. All calls come from the loop."""

    def __init__(
        self,
        store: MetadataStore,
        parent: str,
        note: Callable[[str], Awaitable[None]],
        known: Iterable[str],
    ) -> None:
        """`note`: reads the child of a name, there or not, and acts on it. Errors: CoreError.

        `known`: children that the caller has read, and that may go before there is a watch.
        """
        self._store = store
        self._parent = parent
        self._note = note
        self._tasks = Tasks("child_watch")
        self._watched: set[str] = set()
        self._unread = set(known)
        self._is_list_unread = True
        self._wake = asyncio.Event()

    def start(self) -> None:
        """Begin to follow; everything is read once, in the background."""
        self._wake.set()
        self._tasks.start(self._follow(), "follow")

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
        while True:
            await self._wake.wait()
            self._wake.clear()
            try:
                await self._catch_up()
            except CoreError as error:
                logger.warning("children_unread parent=%s error=%r", self._parent, error)
                self._wake.set()
                await asyncio.sleep(PAUSE_S)

    async def _catch_up(self) -> None:
        """Read what changed. Errors: CoreError leaves the rest for the next time."""
        if self._is_list_unread:
            self._is_list_unread = False  # before reading: what changes meanwhile is read again
            try:
                names = await self._store.children(self._parent, self._on_list_changed)
            except BaseException:
                self._is_list_unread = True
                raise
            self._unread |= self._watched.symmetric_difference(names)
        while self._unread:
            name = min(self._unread)
            self._unread.discard(name)
            try:
                await self._read(name)
            except BaseException:
                self._unread.add(name)
                raise

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
