"""Writing segments back from cold storage to ledgers.

Invariant: what is on bookies has no hole, for Java's readers too: so the newest segment goes first,
and a restore that stops in the middle has restored a suffix. The new ledger is noted among what is
to be purged, a day from now, before it is made, which is why its id is chosen here: the multi that
makes the segment's node takes the note away, and a crash leaves it to `LogTrimmer.collect`. The
segment stays in cold storage.
"""

import asyncio
import logging
from dataclasses import replace
from random import Random
from typing import Final

from core.errors import ColdStorageDisabled, CoreError, MetadataConflict
from core.ledger.writer import LedgerWriter
from core.log.cold.nodes import ColdSegment, read_cold
from core.log.cold.store import ColdStore
from core.log.cold.verify import read_entries, read_frame
from core.log.context import LogContext
from core.log.purged import PurgedNodes
from core.log.segment_nodes import first_on_bookies
from core.metadata.layout import LogPaths
from core.metadata.segment_metadata import (
    SegmentMetadata,
    completed_name,
    encode_segment,
)
from core.metadata.store import Create, Delete, Op
from protocol.ids import NO_ENTRY, EntryId, LedgerId

logger = logging.getLogger(__name__)

RESTORE_MS_MAX: Final = 24 * 3_600_000
"""Time in which a segment has to be written back."""

_LONG_ID: Final = 1 << 62
"""Chosen ids are beyond those that a cluster gives out, and too many to meet twice."""

_UNCONFIRMED_MAX: Final = 64
"""Entries in flight; each has 5 MiB at most."""


class _Progress:
    """Hears of the entries of a ledger (LedgerListener)."""

    def __init__(self) -> None:
        self._lac = NO_ENTRY
        self._error: CoreError | None = None
        self._moved = asyncio.Event()

    def on_confirmed(self, lac: EntryId) -> None:
        self._lac = lac
        self._moved.set()

    def on_failed(self, error: CoreError) -> None:
        self._error = error
        self._moved.set()

    async def reached(self, entry_id: EntryId) -> None:
        """Wait until an entry is confirmed. Errors: what the ledger failed with."""
        while self._lac < entry_id:
            if self._error is not None:
                raise self._error
            self._moved.clear()
            await self._moved.wait()


class ColdRestorer:
    """Restores segments of one log. Its writer need not stop."""

    def __init__(self, paths: LogPaths, context: LogContext, rng: Random | None = None) -> None:
        """`rng`: ids of ledgers; seeded by the system."""
        self._paths = paths
        self._rng = rng or Random()
        self._context = context
        self._store = context.store
        self._purged = PurgedNodes(context.store, paths)

    async def restore(self, from_lssn: int) -> list[int]:
        """Write back every segment from `from_lssn` on that is in cold storage only.

        Newest first; returns their LSSNs. Errors: ColdStorageDisabled; ColdObjectCorrupt,
        ColdObjectNotFound, ColdStorageUnavailable; NotEnoughBookies; MetadataConflict when the
        segment was purged meanwhile. What was restored before stays.
        """
        cold_store = self._context.cold
        if cold_store is None:
            raise ColdStorageDisabled(f"{self._paths.log}: cold.storage.url is not set")
        first_here = await first_on_bookies(self._store, self._paths)
        found = await read_cold(self._store, self._paths)
        wanted = [lssn for lssn in sorted(found, reverse=True) if from_lssn <= lssn < first_here]
        for lssn in wanted:
            await self._restore(found[lssn], cold_store)
        return wanted

    async def _restore(self, cold: ColdSegment, cold_store: ColdStore) -> None:
        ledger_id = LedgerId(_LONG_ID | self._rng.getrandbits(62))
        due_ms = self._context.clock.now_ms() + RESTORE_MS_MAX
        note = self._purged.note_ledger(ledger_id, due_ms)
        await self._note(note)
        progress = _Progress()
        config = self._context.config.ledger_config()
        ledger = await self._context.ledgers.create_ledger(config, progress, ledger_id=ledger_id)
        try:
            await self._write(cold, cold_store, ledger, progress)
            await self._publish(replace(cold.metadata, ledger_id=ledger.ledger_id), note.path)
        except BaseException:
            ledger.abort()
            raise
        cold_store.metrics.segments_restored_total += 1
        logger.info("cold_restored name=%s ledger=%d", cold.name, ledger.ledger_id)

    async def _note(self, note: Create) -> None:
        if await self._purged.version() is None:
            await self._store.multi([self._purged.guard(None), note])
        else:
            await self._store.multi([note])

    async def _write(
        self, cold: ColdSegment, cold_store: ColdStore, ledger: LedgerWriter, progress: _Progress
    ) -> None:
        frame = await read_frame(cold.name, cold_store.objects)
        span_bytes = cold_store.config.part_bytes
        async for entry in read_entries(cold.name, frame, cold_store.objects, span_bytes):
            added = ledger.add([entry.payload])
            await progress.reached(added - _UNCONFIRMED_MAX)
        await progress.reached(ledger.last_add_pushed)
        await ledger.close()

    async def _publish(self, segment: SegmentMetadata, note_path: str) -> None:
        """Make the segment's node. Errors: MetadataConflict: it was purged, or trimmed just now."""
        version = await self._purged.version()
        cold = await read_cold(self._store, self._paths, [segment.lssn])
        if segment.lssn not in cold:
            raise MetadataConflict(f"segment {segment.lssn} of {self._paths.log} was purged")
        now = replace(cold[segment.lssn].metadata, ledger_id=segment.ledger_id)
        ops: list[Op] = [
            self._purged.guard(version),
            Create(self._paths.segment(completed_name(segment.lssn)), encode_segment(now)),
            Delete(note_path),
        ]
        await self._store.multi(ops)
