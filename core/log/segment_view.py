"""One segment as readers see it: its ledger, and how far that may be read now."""

import asyncio
from typing import NamedTuple, Protocol

from tailrace.core.log.segment_ledger import SegmentLedger
from tailrace.core.log.segment_writer import SegmentWriter
from tailrace.core.metadata.segment_metadata import SegmentMetadata
from tailrace.protocol.bookkeeper.entry import Entry
from tailrace.protocol.ids import EntryId


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

    __slots__ = ("_asking", "_writers", "ledger", "metadata")

    def __init__(
        self, metadata: SegmentMetadata, ledger: SegmentLedger, writers: WriterLookup
    ) -> None:
        self.metadata = metadata
        self.ledger = ledger
        self._writers = writers
        self._asking: asyncio.Future[None] | None = None

    def known(self) -> Readable:
        """Return how far one may read as far as this process knows, without asking anybody."""
        ledger = self.ledger
        if ledger.is_closed:
            return Readable(ledger.last_confirmed, is_final=True)
        writer = self._own_writer()
        if writer is not None:
            ledger.note_confirmed(writer.lac)
        return Readable(ledger.last_confirmed, is_final=False)

    async def readable(self) -> Readable:
        """Return how far one may read; an open ledger of another process is asked each time.

        Errors: LedgerNotFound when the segment was purged; BookieUnavailable.
        """
        if self.ledger.is_closed or self._own_writer() is not None:
            return self.known()
        await self.ledger.read_last_confirmed()
        return self.known()  # somebody else may have heard meanwhile that it was closed, and where

    async def look(self) -> Readable:
        """Do the same for a reader that will look again: it shares the answer to who asked before.

        That may have been a moment too early for what was confirmed just now, or have failed.
        """
        if self._asking is not None:
            await asyncio.wait([self._asking])
            return self.known()
        self._asking = asking = asyncio.get_running_loop().create_future()
        try:
            return await self.readable()
        finally:
            self._asking = None
            asking.set_result(None)

    async def read(self, first: EntryId, last: EntryId) -> list[Entry]:
        """Return entries that are readable. Errors: as SegmentLedger.read."""
        return await self.ledger.read(first, last)

    def _own_writer(self) -> SegmentWriter | None:
        writer = self._writers.writer_of(self.metadata.lssn)
        if writer is not None and writer.metadata.ledger_id == self.ledger.ledger_id:
            return writer
        return None
