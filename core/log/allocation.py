"""Getting the ledger of the next segment, and not losing it.

A ledger and the list of segments are two things that cannot change together. So a new ledger's id
is written to an allocation node, the log's own or one of a pool; the multi that starts the segment
empties the node. What a crash leaves there is a ledger without a record, which the next owner
deletes. As in DistributedLog, a crash just before the id is written, or just after it took the
place of another such ledger's, leaves one without an entry that nobody names.

    HANDED OVER --allocate--> (create ledger, record id) --> ALLOCATED --start multi--> HANDED OVER

Source: reference DistributedLog 5.7; SimpleLedgerAllocator.
"""

import logging
from dataclasses import replace
from typing import Protocol

from tailrace.core.errors import CoreError, MetadataConflict, OwnershipLost
from tailrace.core.ledger.adder import LedgerListener
from tailrace.core.ledger.client import LedgerClient
from tailrace.core.ledger.writer import LedgerWriter
from tailrace.core.log.allocation_node import AllocationNode
from tailrace.core.log.config import LogConfig
from tailrace.core.metadata.store import MetadataStore, SetData
from tailrace.protocol.bookkeeper.entry import MAX_ENTRY_BYTES
from tailrace.protocol.ids import LedgerId

logger = logging.getLogger(__name__)


class Allocator(Protocol):
    """Makes the ledgers of one log's segments, one after the other."""

    async def allocate(
        self, listener: LedgerListener, entry_bytes: int = MAX_ENTRY_BYTES
    ) -> LedgerWriter:
        """Make a ledger and record it; it is the next segment's as soon as that is started.

        `entry_bytes`: the largest entry that it must take, if that is more than the log's settings
        say. Errors: OwnershipLost when somebody else allocates in our place; NotEnoughBookies;
        OverCapacity: try again later.
        """

    def hand_over(self) -> SetData:
        """Let go of the ledger: the caller puts this into the multi that starts its segment.

        Once that is on its way, nobody knows for sure that no segment has the ledger.
        """

    def handed_over(self) -> None:
        """Hear that the multi is done."""

    async def give_back(self) -> None:
        """Delete a ledger that no segment took. Errors: none; the next owner would do it."""

    def abandon(self) -> None:
        """Leave everything as it is: the log was given up, perhaps in the middle of a multi."""


class LedgerAllocator:
    """Makes the ledgers of one log, for its owner, with a node of the log's own."""

    def __init__(
        self,
        node: AllocationNode,
        ledgers: LedgerClient,
        config: LogConfig,
        unused: list[LedgerId] | None = None,
    ) -> None:
        """`unused`: where allocators share what is to be deleted."""
        self._ledgers = ledgers
        self._unused = [] if unused is None else unused
        """Ledgers that were made, and perhaps not recorded; no segment can have them."""
        self._node = node
        self._config = config.ledger_config()
        self._allocated: LedgerWriter | None = None

    async def allocate(
        self, listener: LedgerListener, entry_bytes: int = MAX_ENTRY_BYTES
    ) -> LedgerWriter:
        """Make a ledger and record it (Allocator).

        Errors: OwnershipLost; NotEnoughBookies; Unavailable: the same call may succeed later.
        """
        entry_bytes = max(self._config.entry_bytes_max, entry_bytes)
        config = replace(self._config, entry_bytes_max=entry_bytes)
        ledger = await self._ledgers.create_ledger(config, listener)
        try:
            await self._node.record(ledger.ledger_id)
        except MetadataConflict as error:
            self._unused.append(ledger.ledger_id)
            await self._delete_unused()
            raise OwnershipLost(f"another writer allocates ledgers: {error}") from error
        except BaseException:
            self._unused.append(ledger.ledger_id)
            raise
        self._allocated = ledger
        if self._node.leftover is not None:
            self._unused.append(self._node.leftover)
            self._node.leftover = None
        await self._delete_unused()
        return ledger

    def hand_over(self) -> SetData:
        """Let go of the ledger (Allocator)."""
        self._allocated = None
        return self._node.handover()

    def handed_over(self) -> None:
        """Hear that the multi is done (Allocator)."""
        self._node.handed_over()

    def abandon(self) -> None:
        """Leave a ledger to the next owner (Allocator)."""
        self._allocated = None

    async def give_back(self) -> None:
        """Delete a ledger that no segment took. Errors: none; the next owner would do it."""
        ledger, self._allocated = self._allocated, None
        await self._delete_unused()
        if ledger is None:
            return
        try:
            await self._ledgers.delete_ledger(ledger.ledger_id)
            await self._node.clear()
        except CoreError as error:
            logger.info("allocated_ledger_left ledger=%d error=%r", ledger.ledger_id, error)

    async def _delete_unused(self) -> None:
        """Delete them, until one fails: then the rest waits for the next time. Errors: none."""
        while self._unused:
            ledger_id = self._unused.pop()
            try:
                await self._ledgers.delete_ledger(ledger_id)
            except CoreError as error:
                self._unused.append(ledger_id)
                logger.warning("unused_ledger_not_deleted ledger=%d error=%r", ledger_id, error)
                return
            except BaseException:
                self._unused.append(ledger_id)
                raise
            logger.info("unused_ledger_deleted ledger=%d", ledger_id)


async def delete_leftover(store: MetadataStore, path: str, ledgers: LedgerClient) -> None:
    """Delete the ledger in an allocation node of a log that is deleted; there may be none.

    Errors: CorruptData; MetadataConflict when somebody allocates there; Unavailable.
    """
    node = await store.exists(path)
    allocation = AllocationNode(store, path, node)
    if allocation.leftover is not None:
        await ledgers.delete_ledger(allocation.leftover)
        await allocation.clear()
        logger.info("leftover_ledger_deleted ledger=%d", allocation.leftover)
