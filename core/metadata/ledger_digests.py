"""What the metadata says of how a ledger's entries are verified."""

from core.errors import NoNode
from core.metadata.layout import LEDGERS_ROOT, LedgerPaths
from core.metadata.ledger_metadata import decode_ledger
from core.metadata.store import MetadataStore
from protocol.bookkeeper.digest import Digest
from protocol.ids import LedgerId


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
