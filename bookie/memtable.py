"""Entries that are durable in a journal and in no entry log yet. Values only; the loop owns them.

BookKeeper's SortedLedgerStorage keeps a skip list; here it is a dictionary for each ledger, sorted
once, when it is flushed. One memtable takes entries while the one before it (the snapshot) is
written; what is looked for is looked for in both.
"""

from collections.abc import Iterator
from typing import NamedTuple

from tailrace.protocol.ids import EntryId, LedgerId

OVERHEAD_BYTES = 200
"""What Python keeps for an entry besides its bytes."""


class MemEntry(NamedTuple):
    """An entry as it is flushed."""

    ledger_id: LedgerId
    entry_id: EntryId
    body: bytes


class Memtable:
    """Ledger id -> entry id -> body. `size` counts bodies and what Python adds. Unit: bytes."""

    __slots__ = ("_ledgers", "size")

    def __init__(self) -> None:
        self._ledgers: dict[LedgerId, dict[EntryId, bytes]] = {}
        self.size = 0

    def __bool__(self) -> bool:
        return bool(self._ledgers)

    def put(self, ledger_id: LedgerId, entry_id: EntryId, body: bytes) -> None:
        """Keep an entry, replacing an older one of that id."""
        entries = self._ledgers.get(ledger_id)
        if entries is None:
            entries = self._ledgers[ledger_id] = {}
        entries[entry_id] = body
        self.size += len(body) + OVERHEAD_BYTES

    def get(self, ledger_id: LedgerId, entry_id: EntryId) -> bytes | None:
        """Return a body, None if it is not here."""
        entries = self._ledgers.get(ledger_id)
        return entries.get(entry_id) if entries is not None else None

    def entry_ids(self, ledger_id: LedgerId) -> list[EntryId]:
        """Return the ids of a ledger's entries that are here; not sorted."""
        return list(self._ledgers.get(ledger_id, ()))

    def forget(self, ledger_id: LedgerId) -> None:
        """Drop a ledger. What it took counts on until the flush."""
        self._ledgers.pop(ledger_id, None)

    def entries(self) -> Iterator[MemEntry]:
        """Return all entries in the order they belong in an entry log: by ledger, then by id."""
        for ledger_id in sorted(self._ledgers):
            entries = self._ledgers[ledger_id]
            for entry_id in sorted(entries):
                yield MemEntry(ledger_id, entry_id, entries[entry_id])
