"""A pool of ledger allocators that all logs of a process share.

A log takes an allocator for as long as it makes a ledger and starts a segment with it. The pool's
nodes outlive the process, so what a crash leaves in them is found and deleted by the next process
that has the pool's name, whichever logs it opens.

    free --take (read the node again if in doubt)--> in use --segment started--> free
                                                       '--anything else--> free, in doubt

Invariant: each node is in the hands of one log at a time, and after a start that may still be on
its way the node is changed before the ledger in it counts as left over.
Source: reference DistributedLog 5.7; LedgerAllocatorPool.
"""

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from tailrace.core.errors import (
    CorruptData,
    NodeExists,
    NoNode,
    OverCapacity,
    OwnershipLost,
    Unavailable,
)
from tailrace.core.ledger.adder import LedgerListener
from tailrace.core.ledger.client import LedgerClient
from tailrace.core.ledger.writer import LedgerWriter
from tailrace.core.log.allocation import LedgerAllocator
from tailrace.core.log.allocation_node import AllocationNode
from tailrace.core.log.config import LogConfig
from tailrace.core.metadata.store import MetadataStore, SetData
from tailrace.protocol.bookkeeper.entry import MAX_ENTRY_BYTES

if TYPE_CHECKING:
    from tailrace.protocol.ids import LedgerId

logger = logging.getLogger(__name__)

_NODE_PREFIX: Final = "A"
_WAIT_S: Final = 10.0
"""How long a log waits for an allocator that is free."""

_ATTEMPTS_MAX: Final = 3
"""Allocators that a log tries when others use them too."""


class AllocatorPool:
    """The pool of one name. Its nodes are made and listed when the first ledger is needed."""

    def __init__(self, store: MetadataStore, ledgers: LedgerClient, path: str, size: int) -> None:
        """`path`: of the pool in the metadata; `size`: allocators, if it has not more already."""
        self._store = store
        self._ledgers = ledgers
        self._path = path
        self._size = size
        self.unused: list[LedgerId] = []
        """Ledgers that no segment can have, to be deleted with the next success."""
        self._opening = asyncio.Lock()
        self._is_open = False
        self._free: asyncio.Queue[AllocationNode | str] = asyncio.Queue()

    def allocator(self, config: LogConfig) -> "PooledAllocator":
        """Return an allocator for one log, with that log's quorums."""
        return PooledAllocator(self, self._ledgers, config)

    async def take(self) -> AllocationNode:
        """Return a free node of the pool; give it back with `put` or `doubt`.

        Errors: OverCapacity when none gets free in time; Unavailable.
        """
        await self._open()
        try:
            async with asyncio.timeout(_WAIT_S):
                while True:
                    free = await self._free.get()
                    node = free if isinstance(free, AllocationNode) else await self._read(free)
                    if node is not None:
                        return node
        except TimeoutError:
            raise OverCapacity(f"no ledger allocator of {self._path} is free") from None

    def put(self, node: AllocationNode) -> None:
        """Give back a node whose state is known."""
        self._free.put_nowait(node)

    def doubt(self, node: AllocationNode) -> None:
        """Give back a node that must be read again before it is used."""
        self._free.put_nowait(node.path)

    async def _open(self) -> None:
        async with self._opening:
            if self._is_open:
                return
            names = await self._names()
            for _ in range(len(names), self._size):
                await self._store.create(f"{self._path}/{_NODE_PREFIX}", sequential=True)
            for name in await self._names():
                self._free.put_nowait(f"{self._path}/{name}")
            self._is_open = True

    async def _names(self) -> list[str]:
        try:
            await self._store.create(self._path, parents=True)
        except NodeExists:
            logger.debug("allocator_pool_found path=%s", self._path)
        names = await self._store.children(self._path)
        return [name for name in names if name.startswith(_NODE_PREFIX)]

    async def _read(self, path: str) -> AllocationNode | None:
        """Read a node; None when it cannot be used any more."""
        try:
            return AllocationNode(self._store, path, await self._store.get(path))
        except (NoNode, CorruptData) as error:
            logger.warning("allocator_dropped path=%s error=%r", path, error)
            return None
        except BaseException:
            self._free.put_nowait(path)
            raise


class PooledAllocator:
    """What one log has of a pool: at most one of its allocators at a time (Allocator)."""

    def __init__(self, pool: AllocatorPool, ledgers: LedgerClient, config: LogConfig) -> None:
        self._pool = pool
        self._ledgers = ledgers
        self._config = config
        self._node: AllocationNode | None = None
        self._inner: LedgerAllocator | None = None

    async def allocate(
        self, listener: LedgerListener, entry_bytes: int = MAX_ENTRY_BYTES
    ) -> LedgerWriter:
        """Make a ledger and record it in a node of the pool (Allocator).

        Errors: Unavailable when another process uses the pool; OverCapacity, NotEnoughBookies.
        """
        for _ in range(_ATTEMPTS_MAX):
            node = await self._pool.take()
            inner = LedgerAllocator(node, self._ledgers, self._config, self._pool.unused)
            try:
                ledger = await inner.allocate(listener, entry_bytes)
            except OwnershipLost as error:
                self._pool.doubt(node)
                logger.warning("allocator_of_another path=%s error=%s", node.path, error)
                continue
            except BaseException:
                self._pool.doubt(node)
                raise
            self._node, self._inner = node, inner
            return ledger
        raise Unavailable("another process uses this pool of ledger allocators")

    def hand_over(self) -> SetData:
        """Let go of the ledger (Allocator)."""
        assert self._inner is not None, "nothing is allocated"
        return self._inner.hand_over()

    def handed_over(self) -> None:
        """Hear that the multi is done: the node is free again (Allocator)."""
        assert self._inner is not None, "nothing is allocated"
        assert self._node is not None
        self._inner.handed_over()
        self._pool.put(self._node)
        self._node = self._inner = None

    async def give_back(self) -> None:
        """Delete a ledger that no segment took (Allocator)."""
        if self._inner is not None:
            inner, self._inner = self._inner, None
            try:
                await inner.give_back()
            finally:
                self.abandon()

    def abandon(self) -> None:
        """Leave a ledger to whoever gets the node next (Allocator)."""
        node, self._node, self._inner = self._node, None, None
        if node is not None:
            self._pool.doubt(node)
