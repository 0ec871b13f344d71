"""Getting the ledger of the next segment without ever losing one.

A ledger and the list of segments are two things that cannot change together. So a new ledger's id
is first written to the log's `allocation` node; the multi that starts the segment empties the node.
What a crash leaves there is a ledger without a record, which the next owner deletes.

    HANDED OVER --allocate--> (create ledger, record id) --> ALLOCATED --start multi--> HANDED OVER

Source: reference DistributedLog 5.7; SimpleLedgerAllocator.
"""

import logging

from core.errors import CoreError, MetadataConflict, OwnershipLost
from core.ledger.adder import LedgerListener
from core.ledger.config import LedgerConfig
from core.ledger.writer import LedgerWriter
from core.log.context import LogContext
from core.log.segment_nodes import SegmentNodes

logger = logging.getLogger(__name__)


class LedgerAllocator:
    """Makes the ledgers of one log, for its owner."""

    def __init__(self, nodes: SegmentNodes, context: LogContext) -> None:
        config = context.config
        self._ledgers = context.ledgers
        self._nodes = nodes
        self._config = LedgerConfig(
            ensemble_size=config.ensemble_size,
            write_quorum=config.write_quorum,
            ack_quorum=config.ack_quorum,
            delay_ensemble_change=config.delay_ensemble_change,
            opportunistic_striping=config.opportunistic_striping,
            add_entry_quorum_timeout_ms=config.add_quorum_timeout_ms,
        )
        self._allocated: LedgerWriter | None = None

    async def allocate(self, listener: LedgerListener) -> LedgerWriter:
        """Make a ledger and record it; it is the next segment's as soon as that is started.

        Errors: OwnershipLost when somebody else allocates for this log; NotEnoughBookies.
        """
        ledger = await self._ledgers.create_ledger(self._config, listener)
        try:
            await self._nodes.record_allocation(ledger.ledger_id)
        except MetadataConflict as error:
            await self._ledgers.delete_ledger(ledger.ledger_id)
            raise OwnershipLost(f"another writer allocates ledgers: {error}") from error
        self._allocated = ledger
        await self._delete_leftover()
        return ledger

    def hand_over(self) -> None:
        """Let go of the ledger before the multi that starts its segment is sent.

        Once that is on its way, nobody knows for sure that no segment has the ledger.
        """
        self._allocated = None

    async def give_back(self) -> None:
        """Delete a ledger that no segment took. Errors: none; the next owner would do it."""
        ledger, self._allocated = self._allocated, None
        if ledger is None:
            return
        try:
            await self._ledgers.delete_ledger(ledger.ledger_id)
            await self._nodes.clear_allocation()
        except CoreError as error:
            logger.info("allocated_ledger_left ledger=%d error=%r", ledger.ledger_id, error)

    async def _delete_leftover(self) -> None:
        leftover, self._nodes.leftover = self._nodes.leftover, None
        if leftover is None:
            return
        logger.info("leftover_ledger_deleted ledger=%d", leftover)
        try:
            await self._ledgers.delete_ledger(leftover)
        except CoreError as error:
            logger.warning("leftover_ledger_not_deleted ledger=%d error=%r", leftover, error)
