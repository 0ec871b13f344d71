"""A ledger that takes the place of a segment's: noted as rubbish until the segment has it.

A ledger and the list of segments are two things that cannot change together. So a new ledger's id,
chosen here, is written below `<default>/purged` before the ledger is made. The multi that gives the
ledger to a segment takes the note away; whoever deletes the ledger claims the note first, by a new
version, which that multi names. So of the two one gets through, even if the multi was sent long
before; a crash anywhere leaves a note. (Two at once leave a ledger that nobody knows: the note is
taken while the ledger is being made, and the maker dies before it looks at the note again.)

    note --create, add, close--> complete --multi--> the segment's
      +--discard, collect--> claimed --> ledger deleted --> note deleted
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random
from typing import Final

from tailrace.core.errors import CoreError, MetadataConflict
from tailrace.core.ledger.writer import LedgerWriter
from tailrace.core.log.context import LogContext
from tailrace.core.log.purged import PurgedNodes, Purpose
from tailrace.core.metadata.store import Delete
from tailrace.protocol.bookkeeper.entry import MAX_ENTRY_BYTES
from tailrace.protocol.ids import NO_ENTRY, Buffer, EntryId, LedgerId

logger = logging.getLogger(__name__)

FILL_MS_MAX: Final = 24 * 3_600_000
"""Time in which a ledger has to be filled: then anybody who collects deletes it."""

_LONG_ID: Final = 1 << 62
"""Chosen ids are beyond those that a cluster gives out, and too many to meet twice."""

_UNCONFIRMED_ENTRIES_MAX: Final = 32
_UNCONFIRMED_BYTES_MAX: Final = 2 * 1024 * 1024
"""In flight; one entry more may be on its way."""


class _Progress:
    """Hears of the entries of a ledger (LedgerListener)."""

    def __init__(self) -> None:
        self.lac = NO_ENTRY
        self._error: CoreError | None = None
        self._moved = asyncio.Event()

    def on_confirmed(self, lac: EntryId) -> None:
        self.lac = lac
        self._moved.set()

    def on_failed(self, error: CoreError) -> None:
        self._error = error
        self._moved.set()

    async def reached(self, entry_id: EntryId) -> None:
        """Wait until an entry is confirmed. Errors: what the ledger failed with."""
        while self.lac < entry_id:
            if self._error is not None:
                raise self._error.with_traceback(None)
            self._moved.clear()
            await self._moved.wait()


class NotedLedger:
    """One such ledger, filled by its maker. Made by `create_noted`."""

    def __init__(self, writer: LedgerWriter, progress: _Progress, note_path: str) -> None:
        self.ledger_id = writer.ledger_id
        self._writer = writer
        self._progress = progress
        self._note_path = note_path
        self._unconfirmed: deque[tuple[EntryId, int]] = deque()
        self._unconfirmed_bytes = 0

    async def add(self, payload: Sequence[Buffer]) -> EntryId:
        """Append an entry, as soon as there is room; return its id.

        The parts must not change until `close`. Errors: as LedgerWriter.add. Cancel: nothing was
        added.
        """
        await self._room()
        entry_id = self._writer.add(payload)
        size = sum(map(len, payload))
        self._unconfirmed.append((entry_id, size))
        self._unconfirmed_bytes += size
        return entry_id

    async def close(self) -> None:
        """Wait for all entries and fix the end. Errors: as LedgerWriter.close."""
        await self._progress.reached(self._writer.last_add_pushed)
        await self._writer.close()

    def abort(self) -> None:
        """Leave it as a crash would. Idempotent."""
        self._writer.abort()

    def take(self) -> Delete:
        """Return the part of a multi that makes the ledger a segment's: no longer rubbish."""
        return Delete(self._note_path, version=0)

    async def _room(self) -> None:
        unconfirmed = self._unconfirmed
        while unconfirmed:
            if unconfirmed[0][0] > self._progress.lac:
                if (
                    len(unconfirmed) < _UNCONFIRMED_ENTRIES_MAX
                    and self._unconfirmed_bytes < _UNCONFIRMED_BYTES_MAX
                ):
                    return
                await self._progress.reached(unconfirmed[0][0])
            self._unconfirmed_bytes -= unconfirmed.popleft()[1]


async def create_noted(
    purged: PurgedNodes,
    context: LogContext,
    rng: Random,
    purpose: Purpose,
    entry_bytes: int = MAX_ENTRY_BYTES,
    cold_prefix: Callable[[LedgerId], str | None] = lambda _ledger_id: None,
) -> NotedLedger:
    """Note and make a ledger of the log's own settings, or for larger entries: `entry_bytes`.

    `cold_prefix`: what the objects begin with that it will be copied to before a segment takes it.
    Errors: NotEnoughBookies; MetadataConflict when somebody took the note for a leftover.
    """
    ledger_id = LedgerId(_LONG_ID | rng.getrandbits(62))
    due_ms = context.clock.now_ms() + FILL_MS_MAX
    await purged.note_new(ledger_id, due_ms, purpose, cold_prefix(ledger_id))
    progress = _Progress()
    config = context.config.ledger_config()
    config = replace(config, entry_bytes_max=max(config.entry_bytes_max, entry_bytes))
    writer = await context.ledgers.create_ledger(config, progress, ledger_id=ledger_id)
    if not await purged.is_new(ledger_id):  # a note that went before the ledger came
        writer.abort()
        await context.ledgers.delete_ledger(ledger_id)
        raise MetadataConflict(f"ledger {ledger_id} was taken for a leftover")
    return NotedLedger(writer, progress, purged.new_path(ledger_id))
