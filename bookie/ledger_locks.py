"""Locks of ledgers, as whoever copies or removes replicas of a ledger holds one.

BookKeeper's own: ephemeral nodes, so they go with the session of whoever held them. A lock whose
making or removal got no answer may be there: it is remembered and removed later, since our session,
and with it the lock, may live for months. Source: BookKeeper ZkLedgerUnderreplicationManager.
"""

import contextlib
import logging
from typing import Final

from core.errors import BadVersion, NodeExists, NoNode, Unavailable
from core.metadata.layout import UnderreplicationPaths
from core.metadata.store import MetadataStore, Node
from core.metadata.underreplication import (
    LAYOUT_BYTES,
    check_underreplication_layout,
    encode_lock,
)
from protocol.ids import LedgerId

logger = logging.getLogger(__name__)

LEFT_BEHIND_MAX: Final = 1000
"""Locks that may be ours and are not removed yet: above it none is taken."""


class LedgerLocks:
    """The ledger locks of one process. All calls come from the loop."""

    def __init__(self, store: MetadataStore, root: str, owner: str) -> None:
        """`owner`: told to people who look at a lock."""
        self._store = store
        self._paths = UnderreplicationPaths(root)
        self._data = encode_lock(owner)
        self._left_behind: set[LedgerId] = set()

    async def prepare(self) -> None:
        """Make the parent of all locks, once, and remove what was left behind.

        Errors: CorruptData when they are kept in another way; Unavailable.
        """
        paths = self._paths
        with contextlib.suppress(NodeExists):
            if await self._store.exists(paths.layout) is None:
                await self._store.create(paths.layout, LAYOUT_BYTES, parents=True)
        check_underreplication_layout((await self._store.get(paths.layout)).data)
        with contextlib.suppress(NodeExists):
            if await self._store.exists(paths.locks) is None:
                await self._store.create(paths.locks, parents=True)
        for ledger_id in sorted(self._left_behind):
            await self.release(ledger_id)

    async def take(self, ledger_id: LedgerId) -> bool:
        """Lock a ledger; False if somebody has it. Errors: Unavailable: it is not taken.

        A lock that is taken is a write: reads behind it see all that the holders before did.
        """
        if len(self._left_behind) >= LEFT_BEHIND_MAX:
            return False
        self._left_behind.add(ledger_id)  # until it is known, and if this is cancelled
        try:
            await self._store.create(self._paths.lock(ledger_id), self._data, ephemeral=True)
        except NodeExists:
            self._left_behind.discard(ledger_id)
            return False
        return True

    def is_ours(self, lock: Node | None) -> bool:
        """Tell whether a lock, as it was read, is held by this process."""
        return lock is not None and lock.ephemeral_owner == self._store.session_id

    async def release(self, ledger_id: LedgerId) -> None:
        """Remove a lock if it is ours. Errors: Unavailable: `prepare` tries again."""
        path = self._paths.lock(ledger_id)
        lock = await self._store.exists(path)
        if lock is not None and self.is_ours(lock):
            with contextlib.suppress(NoNode, BadVersion):
                await self._store.delete(path, lock.version)
        self._left_behind.discard(ledger_id)

    async def release_or_leave(self, ledger_id: LedgerId) -> None:
        """Remove a lock if it is ours, now or, without an answer, later."""
        try:
            await self.release(ledger_id)
        except Unavailable as error:
            logger.warning("ledger_lock_left_for_later ledger=%d error=%s", ledger_id, error)
