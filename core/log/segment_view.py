"""One segment as readers see it: its ledger, and how far that may be read now."""

from typing import NamedTuple, Protocol

from core.ledger.reader import LedgerReader
from core.log.segment_writer import SegmentWriter
from core.metadata.segment_metadata import SegmentMetadata
from protocol.bookkeeper.entry import Entry
from protocol.ids import EntryId


class Readable(NamedTuple):
    """How far a segment may be read."""

    last: EntryId
    """Last confirmed entry, inclusive."""
    is_final: bool
    """Whether it is the last one for good."""


class WriterLookup(Protocol):
    """Who knows the writers of this process."""

    def writer_of(self, lssn: int) -> SegmentWriter | None:
        """Return the writer of a segment that this process is writing or completing."""


class SegmentView:
    """A segment that was opened for reading; shared by the readers of a log."""

    __slots__ = ("_writers", "ledger", "metadata")

    def __init__(
        self, metadata: SegmentMetadata, ledger: LedgerReader, writers: WriterLookup
    ) -> None:
        self.metadata = metadata
        self.ledger = ledger
        self._writers = writers

    async def readable(self, beyond: EntryId | None = None) -> Readable:
        """Return how far one may read; an open ledger of another process is asked each time.

        `beyond`: if that entry is known to be readable, nobody is asked how far it goes now.
        Errors: LedgerNotFound when the segment was purged; BookieUnavailable.
        """
        ledger = self.ledger
        if ledger.is_closed:
            return Readable(ledger.last_confirmed, is_final=True)
        writer = self._writers.writer_of(self.metadata.lssn)
        if writer is not None and writer.metadata.ledger_id == ledger.ledger_id:
            ledger.note_confirmed(writer.lac)
            return Readable(writer.lac, is_final=False)
        if beyond is not None and beyond <= ledger.last_confirmed:
            return Readable(ledger.last_confirmed, is_final=False)
        last = await ledger.read_last_confirmed()
        return Readable(last, ledger.is_closed)

    async def read(self, first: EntryId, last: EntryId) -> list[Entry]:
        """Return entries that are readable. Errors: as LedgerReader.read."""
        return await self.ledger.read(first, last)
