"""Hearing of logs that come and go in a namespace.

Source: reference DistributedLog 3.4 (namespace listener); ZKNamespaceWatcher.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Final

from tailrace.core.errors import NoNode
from tailrace.core.log.names import is_reserved
from tailrace.core.metadata.store import MetadataStore, WatchEvent
from tailrace.core.runtime.forever import Forever
from tailrace.core.runtime.tasks import Tasks

LogListListener = Callable[[list[str]], None]
"""Called on the loop with all names, sorted: once at first, then after each change."""

_PAUSE_S_MAX: Final = 5.0


class LogListWatch:
    """Watches one level of a namespace until it is closed.

    Several changes in a row may be told as one. While the metadata does not answer, and after a
    lost session, the names are read again with growing pauses; nothing is told before one reading
    went well.
    """

    def __init__(
        self,
        store: MetadataStore,
        path: str,
        prefix: str,
        listener: LogListListener,
        on_closed: "Callable[[LogListWatch], None] | None" = None,
    ) -> None:
        """`path`: whose children are logs; `prefix`: what their names begin with.

        `on_closed` is called with the watch when it is closed.
        """
        self._on_closed = on_closed
        self._store = store
        self._path = path
        self._prefix = prefix
        self._listener = listener
        self._told: list[str] | None = None
        self._tasks = Tasks("log.list_watch")

    def start(self) -> None:
        """Begin to watch."""
        self._tasks.start(self._run(), "watch")

    async def close(self) -> None:
        """Tell nothing more. Idempotent."""
        try:
            await self._tasks.close()
        finally:
            if self._on_closed is not None:
                self._on_closed(self)

    async def _run(self) -> None:
        watch = Forever("log.list_watch", about=self._path, pause_s_max=_PAUSE_S_MAX)
        await watch.run(partial(self._follow, watch))

    async def _follow(self, watch: Forever) -> None:
        """Tell what there is, and wait until it changes."""
        changed = asyncio.Event()

        def fired(_path: str, _event: WatchEvent) -> None:
            changed.set()

        names = await self._read(fired)
        if names != self._told:
            self._listener(list(names))
            self._told = names
        watch.is_well()
        await changed.wait()

    async def _read(self, fired: Callable[[str, WatchEvent], None]) -> list[str]:
        if await self._store.exists(self._path, fired) is None:
            return []  # the watch fires when it is made
        try:
            names = await self._store.children(self._path, fired)
        except NoNode:
            return []  # gone since: the first watch has fired
        return [self._prefix + name for name in names if not is_reserved(name)]
