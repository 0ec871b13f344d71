"""What the metadata says of how a ledger's entries are verified."""

from tailrace.core.errors import NoNode
from tailrace.core.metadata.layout import LEDGERS_ROOT, LedgerPaths
from tailrace.core.metadata.ledger_metadata import decode_ledger
from tailrace.core.metadata.store import MetadataStore
from tailrace.protocol.bookkeeper.digest import Digest
from tailrace.protocol.ids import LedgerId


async def find_digest(
    store: MetadataStore, ledger_id: LedgerId, root: str = LEDGERS_ROOT
) -> Digest | None:
    """Return a ledger's digest; None without such a ledger, or if its metadata names none.

    Errors: CorruptData, Unavailable.
    """
    try:
        node = await store.get(LedgerPaths(root).ledger(ledger_id))
    except NoNode:
        return None
    ledger = decode_ledger(node.data)
    return Digest(ledger.digest, ledger.password) if ledger.has_digest else None
