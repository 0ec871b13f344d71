"""Reading a ledger's entries in order while the next ones are on their way.

Invariant: entries come in order, each once; one piece is with the caller and at most one more is
asked for. A piece ends at the LAC, and holds `read_ahead_entries` and about `read_ahead_bytes` at
most. It may come from, and go to, other readers of the log (`SharedEntries`).
"""

import asyncio
import logging
from functools import partial
from typing import Final

from tailrace.core.errors import CoreError, CorruptData, EntryNotFound
from tailrace.core.log.config import LogConfig
from tailrace.core.log.entry_cache import Chunk
from tailrace.core.log.read_pace import ReadPace
from tailrace.core.log.segment_ledger import SegmentLedger
from tailrace.core.log.shared_entries import SharedEntries
from tailrace.core.runtime.tasks import Tasks
from tailrace.protocol.bookkeeper.entry import Entry
from tailrace.protocol.ids import NO_ENTRY, EntryId

logger = logging.getLogger(__name__)

_UNKNOWN_SIZE_ENTRIES: Final = 4
"""Entries of the first piece when nobody knows how large they are."""


class ReadAhead:
    """One reader in one ledger, from one entry on."""

    def __init__(
        self,
        lssn: int,
        ledger: SegmentLedger,
        first: EntryId,
        config: LogConfig,
        shared: SharedEntries,
        pace: ReadPace | None = None,
    ) -> None:
        """`pace`: what the reader learnt in the ledger before."""
        self.next_entry = first
        """The first entry that was not given out."""
        self._lssn = lssn
        self._ledger = ledger
        self._config = config
        self._shared = shared
        self.pace = pace or ReadPace(config.read_ahead_bytes)
        self._entries_max = config.read_ahead_entries
        self._held: Chunk | None = None
        self._asked_to = self._suspect = NO_ENTRY
        self._entry_bytes = shared.entry_bytes
        if ledger.is_closed and ledger.last_confirmed >= 0:
            self._entry_bytes = ledger.length // (ledger.last_confirmed + 1) + 1

    async def read(self, last: EntryId, max_bytes: int) -> list[Entry]:
        """Return the next entries, up to `last`; [] when all were given out.

        `max_bytes` bounds what is read only if nothing is on its way yet. What was returned before
        may be given up now.
        Errors: as SegmentLedger.read; CorruptData and EntryNotFound are about `next_entry`.
        Cancel: nothing is lost.
        """
        self.let_go()
        self.pace.on_asked(max_bytes)
        while self.next_entry <= last:
            known = self._shared.find(self._ledger.ledger_id, self.next_entry)
            chunk = known or self._new_chunk(self._end(last, max_bytes))
            waited = chunk.entries is None
            try:
                await self._wait_for(chunk, is_new=known is None)
            except (CorruptData, EntryNotFound):
                if not self._narrow(chunk):
                    raise
                continue
            if chunk.entries is not None and chunk.last >= self.next_entry:
                return self._take(chunk, waited=waited and known is not None)
        return []

    def ask_ahead(self, last: EntryId, tasks: Tasks, max_bytes: int | None = None) -> bool:
        """Ask for the entries behind those that were given out, unless the process is full.

        Tell whether a request is to be sent: as soon as the loop is free. `max_bytes`: of a piece
        that is asked for anew, about; None: as the pace is.
        """
        first = self.next_entry
        if first > last:
            return False
        known = self._shared.find(self._ledger.ledger_id, first)
        if known is not None:
            self._asked_to = known.last
            return False
        pace_bytes = self.pace.bytes
        end = self._end(last, pace_bytes if max_bytes is None else min(pace_bytes, max_bytes))
        if not self._shared.has_room((end - first + 1) * self._entry_bytes):
            return False
        chunk = self._new_chunk(end)
        self._asked_to = chunk.last
        task = tasks.spawn(self._fetch_ahead(chunk), "read_ahead")
        # A task that is cancelled before its first step would never tell who waits.
        task.add_done_callback(partial(self._on_fetched, chunk))
        return True

    def has_asked_for(self, entry_id: EntryId) -> bool:
        """Tell whether everything up to an entry was given out or is on its way."""
        return entry_id < self.next_entry or entry_id <= self._asked_to

    def go_to(self, entry_id: EntryId) -> None:
        """Go on at an entry behind the next one, which cannot be read."""
        self.next_entry = entry_id
        self._trust_again()

    def let_go(self) -> None:
        """Give up what was returned last: the caller is done with it. Idempotent."""
        if self._held is not None:
            self._shared.let_go(self._held)
            self._held = None

    async def _wait_for(self, chunk: Chunk, *, is_new: bool) -> None:
        if is_new:
            await self._shared.fetch(chunk, self._ledger)
        elif chunk.entries is None:
            chunk.waiters += 1
            try:
                await asyncio.wait([chunk.arrival])
            finally:
                chunk.waiters -= 1
            if chunk.error is not None:
                raise chunk.error

    def _take(self, chunk: Chunk, *, waited: bool) -> list[Entry]:
        now_s = asyncio.get_running_loop().time()
        self.pace.on_taken(
            waited=waited,
            came_in_s=chunk.ready_s - chunk.asked_s,
            lay_s=now_s - chunk.ready_s,
        )
        self._held = chunk
        entries = self._shared.give(chunk)
        if chunk.first < self.next_entry:
            entries = entries[self.next_entry - chunk.first :]
        self.next_entry = chunk.last + 1
        if self.next_entry > self._suspect:
            self._trust_again()
        self._entry_bytes = entries[-1].length // self.next_entry + 1
        self._shared.entry_bytes = self._entry_bytes
        return entries

    def _new_chunk(self, end: EntryId) -> Chunk:
        first = self.next_entry
        estimate = (end - first + 1) * self._entry_bytes
        return self._shared.add(self._lssn, self._ledger.ledger_id, first, end, estimate)

    def _end(self, last: EntryId, max_bytes: int) -> EntryId:
        """Return the last entry of a piece that reaches about `max_bytes`."""
        entries = min(_UNKNOWN_SIZE_ENTRIES, self._entries_max)
        if self._entry_bytes:
            max_bytes = min(max_bytes, self._config.read_ahead_bytes)
            entries = max(1, min(self._entries_max, -(-max_bytes // self._entry_bytes)))
        return min(last, self.next_entry + entries - 1)

    def _narrow(self, chunk: Chunk) -> bool:
        """Ask for fewer entries, to find the one that cannot be read; False if that is known."""
        if chunk.first == chunk.last == self.next_entry:
            return False
        self._entries_max = max(1, (chunk.last - self.next_entry + 1) // 2)
        self._suspect = max(self._suspect, chunk.last)
        return True

    def _trust_again(self) -> None:
        self._entries_max = self._config.read_ahead_entries
        self._suspect = NO_ENTRY

    def _on_fetched(self, chunk: Chunk, _: "asyncio.Task[None]") -> None:
        self._shared.abandon(chunk)

    async def _fetch_ahead(self, chunk: Chunk) -> None:
        try:
            await self._shared.fetch(chunk, self._ledger)
        except CoreError as error:
            # Who waits for it hears of it; else it comes again with the next read.
            logger.debug("read_ahead_failed ledger=%d error=%s", chunk.ledger_id, error)
