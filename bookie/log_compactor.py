"""Compaction of one entry log: what lives in it is written again, then the log may go.

A copy goes the way of an add, to the log that is being written now, so it is durable and replayed
as any entry; the log itself is removed by the collector, behind a checkpoint that has the new
places in the index files. A crash before that leaves entries twice, and a log that the next run
finds without anything that is read from it. Copied is what the index says lies here, nothing else.
"""

import asyncio
import errno
from collections.abc import Collection, Mapping
from typing import NamedTuple

from tailrace.bookie.compaction_rules import Throttle
from tailrace.bookie.entry_log_format import HEADER_SIZE, file_name, pack_location
from tailrace.bookie.entry_reader import EntryReader
from tailrace.bookie.group_format import RECORD_HEAD_SIZE
from tailrace.bookie.ledger_state import LedgerState
from tailrace.bookie.record_scan import scan_records
from tailrace.bookie.storage import Storage
from tailrace.core.errors import CorruptData
from tailrace.core.runtime.clock import Clock
from tailrace.core.runtime.files import Files
from tailrace.protocol.ids import EntryId, LedgerId, Position

WINDOW_BYTES = 1024 * 1024
WINDOW_ENTRIES = 256


class LivingEntry(NamedTuple):
    """An entry of a ledger that lives."""

    ledger_id: LedgerId
    entry_id: EntryId
    location: int
    body: bytes


class _Window(NamedTuple):
    entries: list[LivingEntry]
    sizes: dict[int, int]
    """Ledger id -> bytes of all records that were read, living or not."""
    end: Position | None
    """Where the next window begins; None: this was the last."""


class LogCompactor:
    """Copies the living entries of one log after the other."""

    def __init__(self, storage: Storage, files: Files, clock: Clock, throttle: Throttle) -> None:
        self._storage = storage
        self._files = files
        self._clock = clock
        self._throttle = throttle

    async def run(
        self, log_id: int, ledgers: Mapping[int, int], living: Collection[int]
    ) -> tuple[int, int]:
        """Copy what lives in a log; return how many entries and bytes that were.

        `ledgers`: what the log must hold; if it holds anything else it must not be removed.
        Errors: CorruptData, OSError, StorageFailed: the log must stay.
        Cancel: what was copied is there twice.
        """
        seen: dict[int, int] = {}
        entries = size_bytes = 0
        position: Position | None = HEADER_SIZE
        while position is not None:
            window = await self._storage.upkeep.thread.call(
                lambda start=position: self._read(log_id, start, living)  # type: ignore[misc]
            )
            for ledger_id, size in window.sizes.items():
                seen[ledger_id] = seen.get(ledger_id, 0) + size
            copied = await self._copy(window.entries)
            entries += len(copied)
            size_bytes += sum(len(entry.body) for entry in copied)
            position = window.end
        if seen != dict(ledgers):
            raise CorruptData(f"{file_name(log_id)} does not hold what its ledgers map says")
        return entries, size_bytes

    def _read(self, log_id: int, start: Position, living: Collection[int]) -> _Window:
        fd = self._storage.dirs.open_log(log_id)
        try:
            entries: list[LivingEntry] = []
            sizes: dict[int, int] = {}
            read_bytes = 0
            for ledger_id, entry_id, _, position, size in scan_records(
                lambda length, at: self._files.read_at(fd, length, at),
                start,
                file_name(log_id),
                WINDOW_BYTES,
            ):
                if ledger_id >= 0:
                    sizes[ledger_id] = sizes.get(ledger_id, 0) + size + RECORD_HEAD_SIZE
                if ledger_id in living:
                    place = pack_location(log_id, position)
                    body = self._files.read_at(fd, size, position)
                    entries.append(LivingEntry(LedgerId(ledger_id), entry_id, place, body))
                read_bytes += size
                if read_bytes >= WINDOW_BYTES or len(entries) >= WINDOW_ENTRIES:
                    return _Window(entries, sizes, position + size)
            return _Window(entries, sizes, None)
        finally:
            self._files.close(fd)

    async def _copy(self, entries: list[LivingEntry]) -> list[LivingEntry]:
        """Write again those of the entries that are read from where they were found."""
        moving = await self._read_from_here(entries)
        size_bytes = sum(len(entry.body) for entry in moving)
        delay_s = self._throttle.delay_s(self._clock.monotonic_s(), len(moving), size_bytes)
        if delay_s > 0:
            await asyncio.sleep(delay_s)
            moving = await self._read_from_here(moving)  # some may have been added again
        waiting: list[asyncio.Future[bool]] = []
        for entry in moving:
            if (state := await self._state(entry.ledger_id)) is not None:
                self._put(state, entry, waiting)
        await self._settled(waiting)
        return moving

    async def _read_from_here(self, entries: list[LivingEntry]) -> list[LivingEntry]:
        """Return the entries whose place, in memory or in the index, is where they were found."""
        asked: list[tuple[LivingEntry, int, int]] = []
        for entry in entries:
            state = await self._state(entry.ledger_id)
            if state is not None:
                asked.append((entry, state.locate(entry.entry_id), state.generation))

        def look(reader: EntryReader) -> list[LivingEntry]:
            return [
                entry
                for entry, recent, generation in asked
                if entry.location
                == (recent or reader.locate(entry.ledger_id, entry.entry_id, generation))
            ]

        return await self._storage.call_reader(look)

    async def _state(self, ledger_id: LedgerId) -> LedgerState | None:
        """Return a ledger, from its index file if need be; None if it is not here any more.

        Use it before the next await: later another object may stand for that ledger.
        """
        while (state := self._storage.ledgers.get(ledger_id)) is None:
            found: asyncio.Future[LedgerState | Exception | None]
            found = asyncio.get_running_loop().create_future()
            self._storage.load(ledger_id, found.set_result)
            loaded = await found
            if isinstance(loaded, Exception):
                raise loaded
            if loaded is None:
                return None  # else it may have made room for another one already: load it again
        return state

    def _put(
        self, state: LedgerState, entry: LivingEntry, waiting: "list[asyncio.Future[bool]]"
    ) -> None:
        if state.locate(entry.entry_id) not in (0, entry.location):
            return  # added again meanwhile
        taken: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        waiting.append(taken)

        def settle(done: bool) -> None:  # noqa: FBT001  # AddPath's contract
            if not taken.done():
                taken.set_result(done)

        self._storage.copy(state, entry.entry_id, entry.body, settle)

    async def _settled(self, waiting: "list[asyncio.Future[bool]]") -> None:
        """Wait until all copies are taken. Errors: StorageFailed, OSError (no room)."""
        failed = self._storage.failed
        for taken in waiting:
            await asyncio.wait((taken, failed), return_when=asyncio.FIRST_COMPLETED)
            if failed.done():
                raise failed.result()
            if not taken.result():
                raise OSError(errno.ENOSPC, "no room for copies")
