"""A ledger that is made before there is anybody to write to it: while the old segment is recovered.

Completing the segment of a dead owner and making the ledger of the next one do not depend on each
other, so a new owner does both at once, and its first record waits only for the start multi. An
owner that never writes gives the ledger back; what a crash leaves is a leftover like any other.
"""

import logging

from tailrace.core.errors import CoreError, OwnershipLost
from tailrace.core.ledger.adder import LedgerListener
from tailrace.core.ledger.writer import LedgerWriter
from tailrace.core.log.allocation import Allocator
from tailrace.core.metadata.store import SetData
from tailrace.protocol.bookkeeper.entry import MAX_ENTRY_BYTES
from tailrace.protocol.ids import EntryId

logger = logging.getLogger(__name__)


class PreparedAllocator:
    """An `Allocator` whose first ledger may be made ahead."""

    def __init__(self, inner: Allocator) -> None:
        self._inner = inner
        self._prepared: tuple[LedgerWriter, _Relay] | None = None

    async def prepare(self) -> None:
        """Make the first ledger. Errors: OwnershipLost; what passes is left to `allocate`."""
        relay = _Relay()
        try:
            self._prepared = (await self._inner.allocate(relay), relay)
        except CoreError as error:
            if isinstance(error, OwnershipLost) or not error.retriable:
                raise
            logger.info("ledger_not_prepared error=%r", error)

    async def allocate(
        self, listener: LedgerListener, entry_bytes: int = MAX_ENTRY_BYTES
    ) -> LedgerWriter:
        """Return the prepared ledger, or make one (Allocator).

        One whose entries would be too small is given back.
        """
        prepared, self._prepared = self._prepared, None
        if prepared is not None and prepared[0].entry_bytes_max < entry_bytes:
            prepared = None
            await self._inner.give_back()
        if prepared is None:
            return await self._inner.allocate(listener, entry_bytes)
        ledger, relay = prepared
        relay.listener = listener
        return ledger

    def hand_over(self) -> SetData:
        """Let go of the ledger (Allocator)."""
        return self._inner.hand_over()

    def handed_over(self) -> None:
        """Hear that the multi is done (Allocator)."""
        self._inner.handed_over()

    async def give_back(self) -> None:
        """Delete a ledger that no segment took (Allocator)."""
        self._prepared = None
        await self._inner.give_back()

    def abandon(self) -> None:
        """Leave everything as it is (Allocator)."""
        self._prepared = None
        self._inner.abandon()


class _Relay:
    """Stands in for the listener of a ledger that has none yet, and to which nothing is added."""

    listener: LedgerListener

    def on_confirmed(self, lac: EntryId) -> None:
        self.listener.on_confirmed(lac)

    def on_failed(self, error: CoreError) -> None:
        self.listener.on_failed(error)
