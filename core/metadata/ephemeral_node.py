"""One ephemeral node that a process wants to have: made, found made, or waited for.

A node of another session is the trace of a process that was killed, or a sign of one that lives
under the same name. Who can tell which puts its own node in the place of a trace, so that nobody
sees it gone; who cannot waits one session timeout, after which a trace is gone.
Source: BookKeeper ZKRegistrationManager.
"""

import asyncio
import logging
from collections.abc import Callable

from tailrace.core.errors import BadVersion, NodeExists, NoNode, Unavailable
from tailrace.core.metadata.store import (
    Create,
    Delete,
    MetadataStore,
    Node,
    SessionEvent,
    WatchEvent,
)

logger = logging.getLogger(__name__)


def _cannot_tell(_data: bytes) -> bool:
    return False


class EphemeralNode:
    """One path and what is to be there. All calls come from the loop, one at a time."""

    def __init__(
        self,
        store: MetadataStore,
        path: str,
        data: bytes,
        *,
        is_trace: Callable[[bytes], bool] = _cannot_tell,
        parents: bool = False,
    ) -> None:
        """`is_trace`: tells by the data of another session's node that its process is dead.

        `parents`: make them if they are missing.
        """
        self.path = path
        self._store = store
        self._data = data
        self._is_trace = is_trace
        self._parents = parents
        self._outages = 0
        """How often the store stopped to answer."""
        store.on_session(self._on_session)

    async def make(self, stale_wait_ms: int) -> None:
        """Make the node, waiting so long for another session's to go.

        Errors: NodeExists (it stays: another process lives under this name), NoNode; Unavailable,
        also when the store was away meanwhile: it keeps the nodes of the dead as long as it is.
        """
        outages = self._outages
        try:
            async with asyncio.timeout(stale_wait_ms / 1000):
                while not await self._is_made(stale_wait_ms):
                    pass
        except TimeoutError:
            if await self._is_strange() and self._outages == outages:
                raise NodeExists(
                    f"{self.path} belongs to another session that lives: another process runs as "
                    f"{self.path.rpartition('/')[2]}"
                ) from None
            raise Unavailable(f"{self.path} could not be made within {stale_wait_ms} ms") from None

    async def remove(self) -> None:
        """Delete the node if it is this session's."""
        node = await self._store.exists(self.path)
        if node is not None and node.ephemeral_owner == self._store.session_id:
            await self._delete(node)

    def _on_session(self, event: SessionEvent) -> None:
        self._outages += event is not SessionEvent.RESTORED

    async def _is_strange(self) -> bool:
        """Tell whether the node is another session's. Errors: Unavailable."""
        node = await self._store.exists(self.path)
        return node is not None and node.ephemeral_owner != self._store.session_id

    async def _is_made(self, stale_wait_ms: int) -> bool:
        """Make the node or find it made by us; else wait until it changes."""
        try:
            await self._store.create(self.path, self._data, ephemeral=True, parents=self._parents)
        except NodeExists:
            return await self._is_ours(stale_wait_ms)
        return True

    async def _is_ours(self, stale_wait_ms: int) -> bool:
        changed = asyncio.Event()

        def fired(_path: str, _event: WatchEvent) -> None:
            changed.set()

        node = await self._store.exists(self.path, fired)
        if node is None:
            return False
        if node.ephemeral_owner == self._store.session_id:
            if node.data != self._data:
                await self._store.set(self.path, self._data)
            return True
        if self._is_trace(node.data):
            return await self._has_replaced(node)
        session = node.ephemeral_owner & (1 << 64) - 1
        logger.info(
            "name_waited_for path=%s session=0x%x ms_max=%d", self.path, session, stale_wait_ms
        )
        await changed.wait()
        return False

    async def _has_replaced(self, node: Node) -> bool:
        new = Create(self.path, self._data, ephemeral=True)
        try:
            await self._store.multi([Delete(self.path, node.version), new])
        except (NoNode, BadVersion):
            return False  # its session ended meanwhile, and perhaps another one's node is there
        return True

    async def _delete(self, node: Node) -> None:
        try:
            await self._store.delete(self.path, node.version)
        except (NoNode, BadVersion):
            return  # its session ended meanwhile, and perhaps another one's node is there
