"""What reading a log needs of the ledger below a segment; `LedgerReader` gives it, others may."""

from typing import Protocol

from tailrace.protocol.bookkeeper.entry import Entry
from tailrace.protocol.ids import EntryId, LedgerId


class SegmentLedger(Protocol):
    """A ledger that is read: on bookies, or where a closed one was copied to."""

    @property
    def ledger_id(self) -> LedgerId:
        """Its id, which every entry names."""

    @property
    def last_confirmed(self) -> EntryId:
        """The highest entry known to be confirmed, inclusive; the last one of a closed ledger."""

    @property
    def is_closed(self) -> bool:
        """Whether the end is known to be fixed."""

    @property
    def length(self) -> int:
        """Payload bytes of a closed ledger; 0 of an open one."""

    def note_confirmed(self, lac: EntryId) -> None:
        """Take somebody's word for a LAC; it never moves back."""

    async def read(self, first: EntryId, last: EntryId) -> list[Entry]:
        """Return the entries `first` to `last`, at or below the LAC.

        Errors: LedgerNotFound when it was deleted; CorruptData, BookieUnavailable, EntryNotFound.
        """

    async def read_some(self, first: EntryId, last: EntryId) -> list[Entry]:
        """Return entries from `first` on: at least one, and all up to `last` unless they are large.

        For who guesses how many are read at once. Errors: as `read`.
        """

    async def read_last_confirmed(self) -> EntryId:
        """Ask how far it is confirmed. Errors: as `read`."""

    async def read_last_confirmed_and_entry(
        self, entry_id: EntryId, timeout_ms: int
    ) -> tuple[EntryId, Entry | None]:
        """Wait for an entry beyond the LAC; return the LAC and the entry, or None without news."""
