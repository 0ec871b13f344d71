"""The locks of ledgers: who copies replicas of one, or removes its own, holds its lock.

Ephemeral nodes, so a lock goes with its session. A lock whose create or delete had no answer may be
there though nobody holds it: it is remembered, and deleted when it is seen, since our session, and
with it the lock, may live for months.
Source: BookKeeper ZkLedgerUnderreplicationManager.
"""

import logging

from tailrace.core.errors import NodeExists, NoNode
from tailrace.core.metadata.layout import UnderreplicationPaths
from tailrace.core.metadata.store import MetadataStore, Node, Watch
from tailrace.core.metadata.underreplication import encode_lock
from tailrace.protocol.ids import LedgerId

logger = logging.getLogger(__name__)


class LedgerLocks:
    """The locks of one process. Errors of all methods: Unavailable; then a lock is in doubt."""

    def __init__(self, store: MetadataStore, paths: UnderreplicationPaths, owner: str) -> None:
        """`owner`: told to people who look at a lock."""
        self._store = store
        self._paths = paths
        self._data = encode_lock(owner)
        self._held: dict[LedgerId, int] = {}
        """Locks that are ours, by the session that they go with."""
        self._doubtful: dict[LedgerId, int] = {}
        """Locks that may be there though they are not held, by session."""

    @property
    def in_doubt(self) -> frozenset[LedgerId]:
        """Locks that nobody holds and that may be there: `locked` deletes those that are."""
        session_id = self._store.session_id
        return frozenset(at for at, of in self._doubtful.items() if of == session_id)

    def is_held(self, ledger_id: LedgerId) -> bool:
        """Tell whether a lock is ours and its session not known to be over."""
        return self._held.get(ledger_id) == self._store.session_id

    def is_ours(self, ledger_id: LedgerId, lock: Node | None) -> bool:
        """Tell whether a lock, as it was read, is the one that we hold."""
        return lock is not None and lock.ephemeral_owner == self._held.get(ledger_id)

    async def locked(self, watch: Watch | None = None) -> set[LedgerId]:
        """Return the ledgers that are locked now, by us or others; watch for changes of that.

        Locks that are there though nobody holds them are removed. Errors: NoNode: there never was
        one.
        """
        names = await self._store.children(self._paths.locks, watch)
        found = {self._paths.marked_ledger(name) for name in names}
        ids = {ledger_id for ledger_id in found if ledger_id is not None}
        session_id = self._store.session_id
        self._doubtful = {at: of for at, of in self._doubtful.items() if of == session_id}
        for ledger_id in sorted(ids & self._doubtful.keys()):
            await self._delete(ledger_id, session_id)
            self._doubtful.pop(ledger_id, None)
            ids.discard(ledger_id)  # if it is another's, that is found by who tries to take it
        return ids

    async def acquire(self, ledger_id: LedgerId) -> bool:
        """Take a lock, if nobody has it. Cancel: the lock is in doubt, as after an error.

        A lock that is taken is a write: reads behind it see all that the holders before did.
        """
        session_id = self._store.session_id
        try:
            await self._store.create(
                self._paths.lock(ledger_id), self._data, ephemeral=True, parents=True
            )
        except NodeExists:
            return False
        except BaseException:
            self._doubtful[ledger_id] = session_id
            raise
        if self._store.session_id != session_id:
            # Of which session it is cannot be told from here.
            self._doubtful[ledger_id] = self._store.session_id
            return False
        self._doubtful.pop(ledger_id, None)
        self._held[ledger_id] = session_id
        return True

    def doubt(self, ledger_id: LedgerId) -> None:
        """Hold a lock no longer whose node may be left: the next look at the locks deletes it."""
        session_id = self._held.pop(ledger_id, None)
        if session_id is not None:
            self._doubtful[ledger_id] = session_id

    async def is_there(self, ledger_id: LedgerId) -> bool:
        """Look whether a lock that we hold is still there."""
        if not self.is_held(ledger_id):
            return False
        return self.is_ours(ledger_id, await self._store.exists(self._paths.lock(ledger_id)))

    def forget(self, ledger_id: LedgerId) -> None:
        """Take note that a lock of ours is gone."""
        self._held.pop(ledger_id, None)

    async def release(self, ledger_id: LedgerId) -> None:
        """Let a lock go that we hold; nothing happens to another's. Idempotent."""
        session_id = self._held.pop(ledger_id, None)
        if session_id is None or session_id != self._store.session_id:
            return
        try:
            await self._delete(ledger_id, session_id)
        except BaseException:
            self._doubtful[ledger_id] = session_id
            raise

    async def _delete(self, ledger_id: LedgerId, session_id: int) -> None:
        """Delete a lock of this session; while it was lost another may have got the lock."""
        path = self._paths.lock(ledger_id)
        node = await self._store.exists(path)
        if node is not None and node.ephemeral_owner == session_id:
            try:
                await self._store.delete(path, node.version)
            except NoNode:
                logger.info("ledger_lock_gone ledger=%d", ledger_id)
