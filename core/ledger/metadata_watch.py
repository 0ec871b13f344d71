"""Keeps one ledger's metadata as it is in the store, for who waits at its tail.

The metadata is read once and again after its watch fired, never twice at a time. When the session
is lost the watch fires too: what happened meanwhile is read like any other change.
"""

import asyncio
from collections.abc import Callable

from tailrace.core.ledger.metadata_update import LedgerNodes, StoredLedger
from tailrace.core.metadata.store import WatchEvent
from tailrace.protocol.ids import LedgerId


class MetadataWatch:
    """The watch of one ledger's node. Not closed: it waits for nothing by itself."""

    __slots__ = ("_install", "_is_current", "_ledger_id", "_news", "_nodes", "_reading", "version")

    def __init__(
        self, nodes: LedgerNodes, ledger_id: LedgerId, install: Callable[[StoredLedger], None]
    ) -> None:
        """`install`: takes the metadata whenever it was read."""
        self._nodes = nodes
        self._ledger_id = ledger_id
        self._install = install
        self._is_current = False
        self._reading: asyncio.Future[None] | None = None
        self._news: asyncio.Future[None] | None = None
        self.version = 0
        """Rises with each change that was heard of."""

    async def refresh(self) -> None:
        """Return when the metadata was read since it last changed.

        Errors: LedgerNotFound, CorruptData, Unavailable. Cost: nothing while it is unchanged.
        """
        while not self._is_current:
            if self._reading is not None:
                await asyncio.wait([self._reading])
            else:
                await self._read()

    def changed(self) -> "asyncio.Future[None]":
        """Return what is done at the next change; shared, and not to be cancelled."""
        if self._news is None:
            self._news = asyncio.get_running_loop().create_future()
            if not self._is_current:
                self._news.set_result(None)
        return self._news

    async def _read(self) -> None:
        self._reading = reading = asyncio.get_running_loop().create_future()
        version = self.version
        try:
            stored = await self._nodes.read(self._ledger_id, self._on_changed)
            if self.version == version:
                self._is_current, self._news = True, None
                self._install(stored)
        finally:
            self._reading = None
            reading.set_result(None)

    def _on_changed(self, _path: str, _event: WatchEvent) -> None:
        self._is_current = False
        self.version += 1
        if self._news is not None and not self._news.done():
            self._news.set_result(None)
