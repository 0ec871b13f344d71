"""A completed segment wherever it is: its ledger first, cold storage when the ledger is gone.

Invariant: whoever reads notices nothing when the ledger goes, except that it takes longer.
"""

import logging
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from tailrace.core.errors import ColdObjectNotFound, ColdStorageDisabled, LedgerNotFound
from tailrace.core.log.cold.nodes import decode_cold
from tailrace.core.log.context import LogContext
from tailrace.core.log.segment_ledger import SegmentLedger
from tailrace.core.metadata.layout import LogPaths
from tailrace.core.metadata.segment_metadata import SegmentMetadata
from tailrace.protocol.bookkeeper.entry import Entry
from tailrace.protocol.ids import EntryId, LedgerId

logger = logging.getLogger(__name__)

Reopen: TypeAlias = Callable[[], Awaitable[SegmentLedger]]


async def open_segment(
    segment: SegmentMetadata, paths: LogPaths, context: LogContext
) -> SegmentLedger:
    """Open a segment for reading.

    Errors: LedgerNotFound when it is nowhere; ColdStorageDisabled when it is only in cold storage
    and this process has none; as LedgerClient.open_ledger and ColdStore.open.
    """
    try:
        ledger = await context.ledgers.open_ledger(segment.ledger_id, recover=False)
    except LedgerNotFound as error:
        ledger_gone = error
    else:
        if segment.in_progress or context.cold is None:
            return ledger
        return TieredLedger(ledger, lambda: open_cold(segment, paths, context))
    if segment.in_progress:
        raise ledger_gone
    opened = await open_cold(segment, paths, context, ledger_gone)
    return TieredLedger(opened, lambda: open_cold(segment, paths, context))


async def open_cold(
    segment: SegmentMetadata,
    paths: LogPaths,
    context: LogContext,
    ledger_gone: LedgerNotFound | None = None,
) -> SegmentLedger:
    """Open a segment in cold storage. Errors: as `open_segment`."""
    path = paths.cold_segment(segment.lssn)
    node = await context.store.exists(path)
    if node is None:
        raise ledger_gone or LedgerNotFound(f"segment {segment.lssn} of {paths.log} was purged")
    cold = decode_cold(node.data, path)
    if cold.metadata.ledger_id != segment.ledger_id:
        raise LedgerNotFound(f"segment {segment.lssn} of {paths.log} has another ledger by now")
    if context.cold is None:
        raise ColdStorageDisabled(
            f"segment {segment.lssn} of {paths.log} is in cold storage as {cold.name}: set"
            " cold.storage.url to read it"
        )
    return await context.cold.open(cold)


class TieredLedger:
    """A closed ledger that may go to cold storage while it is read (SegmentLedger)."""

    def __init__(self, ledger: SegmentLedger, reopen: Reopen) -> None:
        self._ledger = ledger
        self._reopen = reopen
        self.ledger_id: LedgerId = ledger.ledger_id
        """The id that it was opened by; entries name it too."""

    @property
    def last_confirmed(self) -> EntryId:
        """The last entry, once the ledger is closed."""
        return self._ledger.last_confirmed

    @property
    def is_closed(self) -> bool:
        """Whether the end is known to be fixed."""
        return self._ledger.is_closed

    @property
    def length(self) -> int:
        """Payload bytes of the closed ledger."""
        return self._ledger.length

    def note_confirmed(self, lac: EntryId) -> None:
        """Take somebody's word for a LAC."""
        self._ledger.note_confirmed(lac)

    async def read(self, first: EntryId, last: EntryId) -> list[Entry]:
        """Return the entries. Errors: LedgerNotFound when the segment was purged; as the tiers."""
        try:
            return await self._ledger.read(first, last)
        except (LedgerNotFound, ColdObjectNotFound) as gone:
            await self._open_again(gone)
        return await self._ledger.read(first, last)

    async def read_some(self, first: EntryId, last: EntryId) -> list[Entry]:
        """Return entries from `first` on (SegmentLedger). Errors: as `read`."""
        try:
            return await self._ledger.read_some(first, last)
        except (LedgerNotFound, ColdObjectNotFound) as gone:
            await self._open_again(gone)
        return await self._ledger.read_some(first, last)

    async def _open_again(self, gone: Exception) -> None:
        logger.info("segment_reopened ledger=%d gone=%s", self.ledger_id, gone)
        self._ledger = await self._reopen()

    async def read_last_confirmed(self) -> EntryId:
        """Ask how far it is confirmed."""
        return await self._ledger.read_last_confirmed()

    async def read_last_confirmed_and_entry(
        self, entry_id: EntryId, timeout_ms: int
    ) -> tuple[EntryId, Entry | None]:
        """Wait for an entry beyond the LAC."""
        return await self._ledger.read_last_confirmed_and_entry(entry_id, timeout_ms)
