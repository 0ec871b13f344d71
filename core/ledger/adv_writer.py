"""Writes one ledger whose entry ids the caller chooses, in any order.

Invariant: entries leave for the bookies in the order of their ids, each with the length up to it.
So an entry behind a gap waits here, not on bookies: nobody could confirm it anyway, and recovery
finds the right length whatever order the adds came in (Java sends at once, and then cannot).
Source: BookKeeper LedgerHandleAdv.
"""

import logging
from collections.abc import Sequence

from typing_extensions import override

from tailrace.core.errors import DuplicateEntryId, LogRecordTooLong
from tailrace.core.ledger.adder import LedgerListener
from tailrace.core.ledger.config import LedgerConfig
from tailrace.core.ledger.context import LedgerContext
from tailrace.core.ledger.metadata_update import StoredLedger
from tailrace.core.ledger.writer import OpenLedger
from tailrace.protocol.ids import Buffer, EntryId

logger = logging.getLogger(__name__)


class AdvLedgerWriter(OpenLedger):
    """The only writer of one open ledger; the caller gives the entry ids."""

    __slots__ = ("_waiting", "_waiting_bytes")

    def __init__(
        self,
        stored: StoredLedger,
        context: LedgerContext,
        listener: LedgerListener,
        config: LedgerConfig,
    ) -> None:
        super().__init__(stored, context, listener, config)
        self._waiting: dict[EntryId, Sequence[Buffer]] = {}
        self._waiting_bytes = 0

    @property
    def waiting_entries(self) -> int:
        """How many entries wait for one with a lower id."""
        return len(self._waiting)

    def add(self, entry_id: EntryId, payload: Sequence[Buffer]) -> None:
        """Add an entry under this id; the listener hears of ids in order, as gaps fill.

        Shape: ids from 0 on, each once, finally without a gap. The parts must not change until the
        entry is confirmed.
        Errors: DuplicateEntryId; as LedgerWriter.add; OverCapacity counts waiting entries, too.
        """
        adder = self._adder
        self._refuse(
            adder.unconfirmed_entries + len(self._waiting),
            adder.unconfirmed_bytes + self._waiting_bytes,
        )
        if entry_id < 0:
            raise ValueError(f"entry id {entry_id}")
        if entry_id <= adder.last_add_pushed or entry_id in self._waiting:
            raise DuplicateEntryId(f"entry {entry_id} of ledger {self.ledger_id} was added before")
        size = sum(map(len, payload))
        if size > adder.payload_max:
            raise LogRecordTooLong(f"entry of {size} bytes, at most {adder.payload_max} fit")
        self._waiting[entry_id] = payload
        self._waiting_bytes += size
        self._push()

    @override
    async def close(self) -> None:
        """Wait for the adds up to the first gap, then fix the end there; as LedgerWriter.close.

        Entries behind a gap were never confirmed, and are dropped.
        """
        if self._waiting:
            logger.warning(
                "ledger_gap ledger=%d missing=%d dropped=%d",
                self.ledger_id, self.last_add_pushed + 1, len(self._waiting),
            )  # fmt: skip
            self._waiting.clear()
        await super().close()

    def _push(self) -> None:
        adder = self._adder
        while (payload := self._waiting.pop(adder.last_add_pushed + 1, None)) is not None:
            self._waiting_bytes -= sum(map(len, payload))
            adder.add(payload)
