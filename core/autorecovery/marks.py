"""The marks: which ledgers lack replicas, one node each.

A mark is made by whoever misses a replica, again if need be, and deleted by the worker that copied
it. The tree has a directory of its own for each ledger (64 bits of its id in four levels), so it is
listed by the directories above: all ledgers of 65,536 ids in one read.
Source: BookKeeper ZkLedgerUnderreplicationManager.
"""

import logging
import re
from collections.abc import AsyncIterator, Callable, Collection
from typing import Final, NamedTuple

from tailrace.core.errors import (
    BadVersion,
    CorruptData,
    MetadataConflict,
    NodeExists,
    NoNode,
    NotEmpty,
)
from tailrace.core.metadata.layout import LEDGER_ID_MAX, UnderreplicationPaths
from tailrace.core.metadata.node_reads import READS_AT_ONCE, read_nodes
from tailrace.core.metadata.store import MetadataStore, Watch
from tailrace.core.metadata.underreplication import Mark, decode_mark, encode_mark
from tailrace.core.runtime.clock import Clock
from tailrace.protocol.ids import BookieId, LedgerId

logger = logging.getLogger(__name__)

_ATTEMPTS: Final = 8
"""Lost races after which a mark is given up: the next audit marks again."""

_LEVELS: Final = 3
"""Directories above those that have one ledger each."""

_DIGITS: Final = re.compile(r"[0-9a-f]{4}", re.ASCII)

Arrange = Callable[[list[str]], None]


class MarkedLedger(NamedTuple):
    """A ledger that lacks replicas."""

    ledger_id: LedgerId
    mark: Mark


class MarkWalk:
    """One way through the tree, a directory at a time; not for two callers at once.

    Memory: the names in one directory of each level.
    """

    def __init__(
        self,
        store: MetadataStore,
        root: str,
        arrange: Arrange | None = None,
        watch: Watch | None = None,
    ) -> None:
        """`arrange`: brings the sorted names of a directory into another order.

        `watch`: set on every directory that is read.
        """
        self._store = store
        self._root = root
        self._arrange = arrange
        self._watch = watch
        self._ahead: list[tuple[str, ...]] = [()]

    async def next_ids(self) -> list[LedgerId] | None:
        """Return some ledgers that may have a mark, or None at the end. Errors: Unavailable."""
        while self._ahead:
            parts = self._ahead[-1]
            names = await self._names("/".join((self._root, *parts)))
            self._ahead.pop()
            if len(parts) == _LEVELS:
                ids = [int("".join((*parts, name)), 16) for name in names]
                return [LedgerId(found) for found in ids if found <= LEDGER_ID_MAX]
            self._ahead += [(*parts, name) for name in reversed(names)]
        return None

    async def _names(self, directory: str) -> list[str]:
        try:
            names = await self._store.children(directory, self._watch)
        except NoNode:
            return []  # its last mark went since its parent was read
        names = [name for name in names if _DIGITS.fullmatch(name)]
        if self._arrange is not None:
            self._arrange(names)
        return names


class Marks:
    """The marks of one cluster."""

    def __init__(self, store: MetadataStore, paths: UnderreplicationPaths, clock: Clock) -> None:
        self._store = store
        self._paths = paths
        self._clock = clock

    async def mark(self, ledger_id: LedgerId, missing: Collection[BookieId]) -> None:
        """Note that a ledger lacks the replicas of these bookies. Idempotent.

        If nothing is new but a worker has the ledger, the mark is written anew all the same: what
        that worker saw may be older. Errors: ValueError for nobody; MetadataConflict when others
        change the mark all the time; Unavailable: it may have happened. Cost: one round trip for a
        ledger that has no mark (and more for directories), three for others.
        """
        if not missing:
            raise ValueError(f"nobody is missing from ledger {ledger_id}")
        path = self._paths.mark(ledger_id)
        for _ in range(_ATTEMPTS):
            try:
                await self._store.create(path, self._encoded(sorted(set(missing))), parents=True)
            except NodeExists:
                pass
            except NoNode:
                continue  # a worker removes the empty directories all the time
            else:
                return
            try:
                await self._add(ledger_id, path, missing)
            except (NoNode, BadVersion):
                continue
            return
        raise MetadataConflict(f"{path}: others change it all the time")

    async def get(self, ledger_id: LedgerId) -> Mark | None:
        """Return a ledger's mark, None if it has none."""
        node = await self._store.exists(self._paths.mark(ledger_id))
        return read_mark(ledger_id, node.data) if node is not None else None

    async def marked(self) -> AsyncIterator[MarkedLedger]:
        """Yield all marks, in the order of ledger ids.

        Those that come or go meanwhile may or may not be seen. Cost: a round trip for each 128,
        and the memory of one directory's names.
        """
        walk = MarkWalk(self._store, self._paths.ledgers)
        while (ids := await walk.next_ids()) is not None:
            for at in range(0, len(ids), READS_AT_ONCE):
                some = ids[at : at + READS_AT_ONCE]
                nodes = await read_nodes(self._store, [self._paths.mark(each) for each in some])
                for ledger_id, node in zip(some, nodes, strict=True):
                    if node is not None:
                        yield MarkedLedger(ledger_id, read_mark(ledger_id, node.data))

    async def prune(self, ledger_id: LedgerId) -> None:
        """Remove the directories above a mark that went, as far as they are empty."""
        path = self._paths.mark(ledger_id)
        for _ in range(_LEVELS + 1):
            path = path.rpartition("/")[0]
            try:
                await self._store.delete(path)
            except NotEmpty:
                return
            except NoNode:
                continue

    async def _add(self, ledger_id: LedgerId, path: str, missing: Collection[BookieId]) -> None:
        """Add to a mark that is there. Errors: NoNode, BadVersion: it is another by now."""
        node, lock = await self._store.get_all([path, self._paths.lock(ledger_id)])
        if node is None:
            raise NoNode(path)
        mark = read_mark(ledger_id, node.data)
        new = sorted(set(missing) - set(mark.missing))
        if new:
            await self._store.set(path, self._encoded([*mark.missing, *new]), node.version)
        elif lock is not None:
            await self._store.set(path, node.data, node.version)

    def _encoded(self, missing: list[BookieId]) -> bytes:
        return encode_mark(Mark(tuple(missing), self._clock.now_ms()))


def read_mark(ledger_id: LedgerId, data: bytes) -> Mark:
    """Return what a mark says; of one that cannot be read only that it is there.

    Who copies looks for himself which replicas are missing, so such a ledger is not left out.
    """
    try:
        return decode_mark(data)
    except CorruptData as error:
        logger.warning("mark_unreadable ledger=%d %s", ledger_id, error)
        return Mark(())
