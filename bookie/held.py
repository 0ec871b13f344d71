"""Whether a bookie holds an entry already that it is asked to add again. Pure.

A recovery adds again what it found, with the LAC and the digest of its own. Where the very entry
lies, sound, there is nothing to write: so a ledger can be closed, and read, while no bookie has
room. Sound is what equals what came, or verifies by a digest that needs no password and has the
same length and payload; an HMAC ledger's entry with another LAC counts as not held.
"""

from typing import Final

from tailrace.protocol.bookkeeper.digest import Digest, DigestType
from tailrace.protocol.bookkeeper.entry import Entry, read_entry
from tailrace.protocol.errors import DecodeError
from tailrace.protocol.ids import Buffer, EntryId, LedgerId

_DIGESTS: Final = (Digest(DigestType.CRC32), Digest(DigestType.CRC32C))


def is_held(ledger_id: LedgerId, entry_id: EntryId, stored: bytes, added: bytes) -> bool:
    """Tell whether `stored` is the entry that `added` is. Cost: up to two digests over each."""
    if stored == added:
        return True
    for digest in _DIGESTS:
        found = _read(ledger_id, entry_id, stored, digest)
        wanted = _read(ledger_id, entry_id, added, digest)
        if found is not None and wanted is not None:
            return found.length == wanted.length and found.payload == wanted.payload
    return False


def _read(ledger_id: LedgerId, entry_id: EntryId, body: Buffer, digest: Digest) -> Entry | None:
    try:
        return read_entry(body, ledger_id, entry_id, digest)
    except DecodeError:
        return None
