"""Writes one ledger: adds in order, then the end fixed in the metadata.

Invariant: what the listener heard confirmed stays readable for ever, also when this writer is cut
off: whoever recovers the ledger finds it. A writer that failed does not close the ledger; recovery
by the next owner decides what became of the unanswered adds.
"""

import logging
from collections.abc import Sequence

from core.errors import LedgerFenced, OverCapacity, Unavailable
from core.ledger.adder import EntryAdder, LedgerListener
from core.ledger.bookie_registry import BookieRegistry
from core.ledger.config import LedgerConfig
from core.ledger.metadata_update import LedgerNodes, StoredLedger
from core.metadata.ledger_metadata import LedgerMetadata, LedgerState
from protocol.ids import Buffer, EntryId

logger = logging.getLogger(__name__)


class LedgerWriter:
    """The only writer of one open ledger."""

    __slots__ = (
        "_adder", "_bytes_max", "_closing", "_entries_max", "_nodes", "_stored", "ledger_id",
    )  # fmt: skip

    def __init__(
        self,
        stored: StoredLedger,
        nodes: LedgerNodes,
        bookies: BookieRegistry,
        listener: LedgerListener,
        config: LedgerConfig,
    ) -> None:
        self.ledger_id = stored.ledger_id
        self._stored = stored
        self._nodes = nodes
        self._adder = EntryAdder(stored, bookies, listener, nodes.metrics)
        self._entries_max = config.unconfirmed_entries_max
        self._bytes_max = config.unconfirmed_bytes_max
        self._closing = False

    @property
    def lac(self) -> EntryId:
        """Last add confirmed, inclusive; -1 before the first."""
        return self._adder.lac

    @property
    def last_add_pushed(self) -> EntryId:
        """The highest entry id handed out; -1 before the first."""
        return self._adder.last_add_pushed

    @property
    def length(self) -> int:
        """Payload bytes pushed, confirmed or not."""
        return self._adder.length

    @property
    def metadata(self) -> LedgerMetadata:
        """The ledger's metadata as this writer knows it."""
        return self._stored.metadata

    def add(self, payload: Sequence[Buffer]) -> EntryId:
        """Append an entry and return its id; the listener hears when it is confirmed.

        Order is the order of the calls. The parts must not change until then.
        Errors: the sticky error after a failure; OverCapacity when too much is unconfirmed, and
        LogRecordTooLong, both with nothing sent; Unavailable once `close` was called.
        """
        adder = self._adder
        if adder.error is not None:  # before the limits: a failed writer never has room again
            raise adder.error.with_traceback(None)
        if self._closing:
            raise Unavailable(f"the writer of ledger {self.ledger_id} is closed")
        if (
            adder.unconfirmed_entries >= self._entries_max
            or adder.unconfirmed_bytes >= self._bytes_max
        ):
            raise OverCapacity(
                f"ledger {self.ledger_id}: {adder.unconfirmed_entries} entries,"
                f" {adder.unconfirmed_bytes} bytes are unconfirmed"
            )
        return adder.add(payload)

    async def close(self) -> None:
        """Wait for the adds, then fix the end in the metadata. Idempotent.

        Errors: the sticky error (the metadata is left to recovery); LedgerFenced when somebody
        recovers the ledger or has closed it elsewhere. Cancel: the writer takes no more adds, and
        close may be called again.
        """
        self._closing = True
        await self._adder.drained()
        self._stored = await self._nodes.update(self._stored, self._decide_close)
        logger.debug("ledger_closed ledger=%d last_entry=%d", self.ledger_id, self.lac)

    def abort(self) -> None:
        """Take no more adds and leave the ledger open, as a crash would: recovery finds its end."""
        self._closing = True
        self._adder.fail(Unavailable(f"the writer of ledger {self.ledger_id} was aborted"))

    def _decide_close(self, current: LedgerMetadata) -> LedgerMetadata | None:
        end = (self.lac, self._adder.confirmed_length)
        if current.state is LedgerState.OPEN:
            return current.closed(*end)
        if current.is_closed and (current.last_entry_id, current.length) == end:
            return None
        raise LedgerFenced(
            f"ledger {self.ledger_id} is {current.state.name} at {current.last_entry_id},"
            f" this writer is at {self.lac}"
        )
