"""Which bookies belong to a cluster and which of them are registered, as the nodes say now.

What is decided here is decided by absence, so the lists are read by this session, behind a `sync`,
and again as soon as a watch says that they changed. A failed read says nothing about any bookie.
"""

import asyncio
from collections.abc import Callable

from tailrace.core.autorecovery.audit_rules import Registrations
from tailrace.core.errors import NoNode
from tailrace.core.metadata.bookie_lists import read_bookie_lists
from tailrace.core.metadata.layout import LedgerPaths
from tailrace.core.metadata.node_reads import read_current
from tailrace.core.metadata.store import MetadataStore, WatchEvent
from tailrace.core.runtime.tasks import together
from tailrace.protocol.ids import BookieId


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

        Cost: nothing while no list changed, else three round trips, or four while some are lost.
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
        return await read_current(self._store, self._read_lists)

    async def _read_lists(self) -> Registrations:
        try:  # before the lists: who is new has his cookie before he registers
            cookies = await self._store.children(self._paths.cookies)
        except NoNode:
            cookies = []
        writable, read_only = await read_bookie_lists(self._store, self._paths, self._fired)
        available = frozenset({*writable, *read_only})
        known = frozenset(map(BookieId, cookies))
        return Registrations(known - await self._given_up(known - available), available)

    async def _given_up(self, lost: frozenset[BookieId]) -> set[BookieId]:
        """Return those of lost bookies whose cookie is gone; hear when another one goes.

        Only these are watched: a cookie that comes belongs to a bookie that is about to register.
        """
        ordered = sorted(lost)
        cookies = await together(
            [self._store.exists(self._paths.cookie(each), self._fired) for each in ordered]
        )
        return {each for each, node in zip(ordered, cookies, strict=True) if node is None}
