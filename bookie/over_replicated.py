"""Removing ledgers that other bookies keep by now. Source: reference BookKeeper 5.11, 6.4.

A bookie that was away while its ledgers were copied elsewhere comes back with replicas that no
metadata names. One goes only if its ledger is closed, no fragment names this bookie, it is not
marked as underreplicated, and all that was read while this bookie held the ledger's lock, without
which nobody copies. Everything else stays: what cannot be read too.
"""

import contextlib
import functools
import logging
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from tailrace.bookie.compaction_rules import GcConfig
from tailrace.core.errors import CoreError, CorruptData, NoNode, Unavailable
from tailrace.core.metadata.layout import LedgerPaths, UnderreplicationPaths
from tailrace.core.metadata.ledger_locks import LedgerLocks
from tailrace.core.metadata.ledger_metadata import LedgerMetadata, decode_ledger
from tailrace.core.metadata.node_reads import read_nodes
from tailrace.core.metadata.store import MetadataStore, Node
from tailrace.core.metadata.underreplication import check_underreplication_layout
from tailrace.core.runtime.clock import Clock
from tailrace.core.runtime.tasks import together
from tailrace.protocol.ids import BookieId, LedgerId

logger = logging.getLogger(__name__)

ANSWER_S_MAX: Final = 1.0
"""An older answer about a lock counts for nothing: after a pause of this process it may be
somebody else's. Any session lives longer than this without a word (ZooKeeper: 4 s at least)."""

MayGo: TypeAlias = Callable[[], Awaitable[bool]]
"""Whether a ledger may be removed, in the very moment of the answer. Errors: CoreError."""

GiveUp: TypeAlias = Callable[[LedgerId, MayGo], Awaitable[bool]]
"""Removes a ledger if it may go, and tells. Errors: CoreError, OSError."""


@dataclass(slots=True)
class Pass:
    """What one look at all ledgers did."""

    removed: list[LedgerId] = field(default_factory=list)
    is_whole: bool = True
    """No error kept a ledger back, or left a lock: it need not be repeated soon."""


def is_kept_by_others(ledger: LedgerMetadata, bookie_id: BookieId) -> bool:
    """Tell whether a ledger is closed and no fragment names the bookie.

    The ensemble of one that is not closed may still change to include it.
    """
    named = any(bookie_id in fragment.ensemble for fragment in ledger.fragments)
    return ledger.is_closed and not named


class OverReplicated:
    """The ledgers of one bookie that it need not keep."""

    def __init__(
        self,
        store: MetadataStore,
        root: str,
        bookie_id: BookieId,
        clock: Clock,
        config: GcConfig,
    ) -> None:
        self._store = store
        self._bookie_id = bookie_id
        self._clock = clock
        self._at_once = config.over_replicated_requests_max
        self._ledgers = LedgerPaths(root)
        self._marks = UnderreplicationPaths(root)
        self._locks = LedgerLocks(store, self._marks, bookie_id)

    async def remove(self, local: Iterable[LedgerId], give_up: GiveUp) -> Pass:
        """Remove those of the ledgers here that others keep.

        Errors: CoreError when the metadata cannot be read, OSError: what was removed stays removed.
        Cancel: as errors; locks go with the session, if not before.
        Cost: a read for each 128 ledgers; for each that seems to be one, four round trips.
        """
        await self._check_layout()
        await self._delete_left_locks()
        ids, done = sorted(local), Pass()
        for at in range(0, len(ids), self._at_once):
            some = ids[at : at + self._at_once]
            nodes = await read_nodes(self._store, [self._ledgers.ledger(each) for each in some])
            seeming = [
                ledger_id
                for ledger_id, node in zip(some, nodes, strict=True)
                if self._is_kept_by_others(ledger_id, node)
            ]
            await together([self._remove(ledger_id, give_up, done) for ledger_id in seeming])
        return done

    async def remove_left_locks(self) -> None:
        """Remove locks of ours that an error or the end of a pass may have left behind.

        Nobody copies those ledgers meanwhile. Errors: Unavailable: again next time.
        Cost: nothing unless there may be one.
        """
        if self._locks.in_doubt:
            await self._delete_left_locks()

    async def _delete_left_locks(self) -> None:
        with contextlib.suppress(NoNode):  # nobody ever locked anything here
            _ = await self._locks.locked()

    async def _check_layout(self) -> None:
        """Let marks pass that are kept in the known way. Errors: CorruptData."""
        layout = await self._store.exists(self._marks.layout)
        if layout is not None:
            check_underreplication_layout(layout.data)

    async def _remove(self, ledger_id: LedgerId, give_up: GiveUp, done: Pass) -> None:
        try:
            if not await self._locks.acquire(ledger_id):
                # Somebody copies it, perhaps to here. Or the session changed meanwhile.
                done.is_whole &= ledger_id not in self._locks.in_doubt
                return
            try:
                is_gone = await give_up(ledger_id, functools.partial(self._may_go, ledger_id))
            finally:
                await self._release(ledger_id, done)
        except CoreError as error:
            logger.warning("over_replicated_ledger_kept ledger=%d error=%s", ledger_id, error)
            done.is_whole = False
            return
        if is_gone:
            logger.info("over_replicated_ledger_removed ledger=%d", ledger_id)
            done.removed.append(ledger_id)

    async def _release(self, ledger_id: LedgerId, done: Pass) -> None:
        try:
            await self._locks.release(ledger_id)
        except Unavailable as error:  # the next collection removes it
            logger.warning("ledger_lock_left_for_later ledger=%d error=%s", ledger_id, error)
            done.is_whole = False

    async def _may_go(self, ledger_id: LedgerId) -> bool:
        """Look again, under the lock. Errors: Unavailable."""
        asked_s = self._clock.monotonic_s()
        ledger, mark, lock = await self._store.get_all(
            [
                self._ledgers.ledger(ledger_id),
                self._marks.mark(ledger_id),
                self._marks.lock(ledger_id),
            ]
        )
        is_fresh = self._clock.monotonic_s() - asked_s <= ANSWER_S_MAX
        is_locked = is_fresh and self._locks.is_ours(ledger_id, lock)
        return is_locked and mark is None and self._is_kept_by_others(ledger_id, ledger)

    def _is_kept_by_others(self, ledger_id: LedgerId, node: Node | None) -> bool:
        if node is None:
            return False  # it was deleted: the next collection finds it dead
        try:
            return is_kept_by_others(decode_ledger(node.data), self._bookie_id)
        except CorruptData as error:
            logger.warning("ledger_metadata_damaged ledger=%d error=%s", ledger_id, error)
            return False
