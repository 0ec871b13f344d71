"""Reading single entries from whichever replica is well, to store them again elsewhere."""

from tailrace.core.errors import LedgerNotFound
from tailrace.core.ledger.client import LedgerClient
from tailrace.core.metadata.ledger_metadata import LedgerMetadata
from tailrace.protocol.bookkeeper.digest import Digest, ledger_master_key
from tailrace.protocol.bookkeeper.entry import pack_entry
from tailrace.protocol.ids import Buffer, EntryId, LedgerId


class ReplicaReader:
    """Bodies of entries, as a bookie stores them, with the key that it wants to see."""

    def __init__(self, ledgers: LedgerClient) -> None:
        self._ledgers = ledgers

    async def read(
        self, ledger_id: LedgerId, entry_id: EntryId
    ) -> tuple[bytes, tuple[Buffer, ...]] | None:
        """Return (master key, body) of an entry; None if only one bookie was given it.

        Shape: the body is verified and packed again; it equals the one that was written.
        Errors: BookieUnavailable, CorruptData, EntryNotFound: no replica could be read.
        """
        try:
            reader = await self._ledgers.open_ledger(ledger_id, recover=False)
        except LedgerNotFound:
            return None
        metadata = reader.metadata
        if metadata.write_quorum == 1:
            return None
        (entry,) = await reader.read_unconfirmed(entry_id, entry_id)
        parts = (entry.payload,)
        body = pack_entry(ledger_id, entry_id, entry.lac, entry.length, parts, _digest(metadata))
        return ledger_master_key(metadata.password), tuple(body)


def _digest(metadata: LedgerMetadata) -> Digest:
    return Digest(metadata.digest, metadata.password)
