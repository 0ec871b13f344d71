"""Hearing of logs that come and go in a namespace.

Source: reference DistributedLog 3.4 (namespace listener); ZKNamespaceWatcher.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from core.errors import CoreError, NoNode
from core.log.names import is_reserved
from core.metadata.store import MetadataStore, WatchEvent
from core.runtime.tasks import Tasks

logger = logging.getLogger(__name__)

LogListListener = Callable[[list[str]], None]
"""Called on the loop with all names, sorted: once at first, then after each change."""

_PAUSE_S: Final = 0.1
_PAUSE_S_MAX: Final = 5.0


class LogListWatch:
    """Watches one level of a namespace until it is closed.

    Several changes in a row may be told as one. While the metadata does not answer, and after a
    lost session, the names are read again with growing pauses; nothing is told before one reading
    went well.
    """

    def __init__(
        self, store: MetadataStore, path: str, prefix: str, listener: LogListListener
    ) -> None:
        """`path`: whose children are logs; `prefix`: what their names begin with."""
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
        await self._tasks.close()

    async def _run(self) -> None:
        failures = 0
        while True:
            changed = asyncio.Event()

            def fired(_path: str, _event: WatchEvent, changed: asyncio.Event = changed) -> None:
                changed.set()

            try:
                names = await self._read(fired)
            except CoreError as error:
                failures += 1
                logger.warning(
                    "logs_unread path=%s failures=%d error=%s", self._path, failures, error
                )
                await asyncio.sleep(min(_PAUSE_S * 2 ** (failures - 1), _PAUSE_S_MAX))
                continue
            failures = 0
            if names != self._told:
                self._told = names
                self._listener(list(names))
            await changed.wait()

    async def _read(self, fired: Callable[[str, WatchEvent], None]) -> list[str]:
        if await self._store.exists(self._path, fired) is None:
            return []  # the watch fires when it is made
        try:
            names = await self._store.children(self._path, fired)
        except NoNode:
            return []  # gone since: the first watch has fired
        return [self._prefix + name for name in names if not is_reserved(name)]
