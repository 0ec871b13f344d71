"""Which bookies belong to a cluster and which of them are registered, as the nodes say now.

What is decided here is decided by absence, so the lists are read by this session, behind a `sync`,
and again as soon as a watch says that they changed. A failed read says nothing about any bookie.
"""

import asyncio
from collections.abc import Callable

from core.autorecovery.audit_rules import Registrations
from core.errors import NoNode
from core.metadata.layout import LedgerPaths
from core.metadata.node_reads import together
from core.metadata.store import MetadataStore, Watch, WatchEvent
from protocol.ids import BookieId

_READ_ONLY_NAME = "readonly"


class RegistrationWatch:
    """The lists of one cluster. Any number of tasks may look."""

    def __init__(self, store: MetadataStore, root: str, on_change: Callable[[], None]) -> None:
        """`on_change`: called when a look would find something else, perhaps."""
        self._store = store
        self._paths = LedgerPaths(root)
        self._on_change = on_change
        self._seen: Registrations | None = None
        self._is_stale = False
        self._turn = asyncio.Lock()

    async def look(self) -> Registrations:
        """Return the lists as they are. Errors: Unavailable; NoNode: the cluster was removed.

        Cost: nothing while no list changed, else two round trips.
        """
        async with self._turn:
            if self._seen is None or self._is_stale:
                self._is_stale = False  # before reading: what changes meanwhile is read again
                try:
                    self._seen = await self._read()
                except BaseException:
                    self._is_stale = True
                    raise
            return self._seen

    def _fired(self, _path: str, _event: WatchEvent) -> None:
        self._is_stale = True
        self._on_change()

    async def _read(self) -> Registrations:
        paths = self._paths
        await self._store.sync()
        # Who changes his mode makes the new node before he deletes the old one. So he is in one of
        # three lists that are read in this order, whichever way he goes.
        writable, read_only, again, cookies = await together(
            [
                self._store.children(paths.available, self._fired),
                self._names(paths.read_only, self._fired),
                self._store.children(paths.available),
                self._names(paths.cookies),
            ]
        )
        available = {*writable, *read_only, *again} - {_READ_ONLY_NAME}
        return Registrations(frozenset(map(BookieId, cookies)), frozenset(map(BookieId, available)))

    async def _names(self, path: str, watch: Watch | None = None) -> list[str]:
        try:
            return await self._store.children(path, watch)
        except NoNode:
            return []  # an old cluster; its coming is a change of its parent
