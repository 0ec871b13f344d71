"""Reading a ledger's entries in order while the next ones are on their way.

Invariant: entries come in order, each once. At most one chunk is on its way beside the one that was
given out, and a chunk has at most `read_ahead_entries`, and bytes about `read_ahead_bytes`.
"""

import asyncio
from typing import Final

from core.errors import CoreError, Unavailable
from core.ledger.reader import LedgerReader
from core.log.config import LogConfig
from core.runtime.tasks import Tasks
from protocol.bookkeeper.entry import Entry
from protocol.ids import EntryId

_UNKNOWN_SIZE_ENTRIES: Final = 4
"""Entries of the first chunk when nobody knows how large they are."""


class ReadAhead:
    """One ledger, from one entry on."""

    def __init__(
        self, ledger: LedgerReader, first: EntryId, config: LogConfig, tasks: Tasks
    ) -> None:
        self._ledger = ledger
        self.next_entry = first
        """The first entry that was not given out."""
        self._entries_max = config.read_ahead_entries
        self._bytes_max = config.read_ahead_bytes
        self._tasks = tasks
        self._entry_bytes = 0
        self._coming: asyncio.Future[list[Entry]] | None = None
        metadata = ledger.metadata
        if metadata.is_closed and metadata.last_entry_id >= 0:
            self._entry_bytes = metadata.length // (metadata.last_entry_id + 1) + 1

    async def read(self, last: EntryId, max_bytes: int) -> list[Entry]:
        """Return the next entries, up to `last`; [] when all were given out.

        `max_bytes` bounds what is read only if nothing is on its way yet.
        Errors: as LedgerReader.read. Cancel: nothing is lost.
        """
        coming = self._coming
        if coming is None:
            if self.next_entry > last:
                return []
            end = self._end_of_chunk(self.next_entry, last, min(max_bytes, self._bytes_max))
            entries = await self._ledger.read(self.next_entry, end)
        else:
            if not coming.done():
                await asyncio.wait([coming])
            self._coming = None
            entries = coming.result()
        self.next_entry = entries[-1].entry_id + 1
        self._entry_bytes = entries[-1].length // self.next_entry + 1
        if self.next_entry <= last:
            self._ask_for(self.next_entry, last)
        return entries

    def _end_of_chunk(self, first: EntryId, last: EntryId, max_bytes: int) -> EntryId:
        entries = _UNKNOWN_SIZE_ENTRIES
        if self._entry_bytes:
            entries = max(1, min(self._entries_max, max_bytes // self._entry_bytes))
        return min(last, first + entries - 1)

    def _ask_for(self, first: EntryId, last: EntryId) -> None:
        self._coming = asyncio.get_running_loop().create_future()
        end = self._end_of_chunk(first, last, self._bytes_max)
        _ = self._tasks.spawn(self._fetch(self._coming, first, end), "read_ahead")

    async def _fetch(
        self, coming: "asyncio.Future[list[Entry]]", first: EntryId, last: EntryId
    ) -> None:
        try:
            entries = await self._ledger.read(first, last)
        except CoreError as error:
            if not coming.done():
                coming.set_exception(error)
                coming.exception()  # retrieved: nobody may ever read on
        else:
            if not coming.done():
                coming.set_result(entries)
        finally:
            if not coming.done():
                coming.set_exception(Unavailable("the reader was closed"))
                coming.exception()
