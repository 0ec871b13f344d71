"""Writing segments back from cold storage to ledgers.

Invariant: what is on bookies has no hole, for Java's readers too: so the newest segment goes first,
and a restore that stops in the middle has restored a suffix. The new ledger is noted before it is
made (`noted_ledger.py`); a crash leaves it to `LogTrimmer.collect`. The segment stays in cold
storage.
"""

import logging
from dataclasses import replace
from random import Random

from tailrace.core.errors import ColdStorageDisabled, MetadataConflict
from tailrace.core.log.cold.nodes import ColdSegment, decode_cold, encode_cold, read_cold
from tailrace.core.log.cold.store import ColdStore
from tailrace.core.log.cold.verify import Verified, entry_bytes_in, read_entries, read_frame
from tailrace.core.log.context import LogContext
from tailrace.core.log.noted_ledger import NotedLedger, create_noted
from tailrace.core.log.purged import PurgedNodes, Purpose
from tailrace.core.log.segment_nodes import first_on_bookies
from tailrace.core.metadata.layout import LogPaths
from tailrace.core.metadata.segment_metadata import completed_name, encode_segment
from tailrace.core.metadata.store import Create, Op, SetData

logger = logging.getLogger(__name__)


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
        frame = await read_frame(cold.name, cold_store.objects)
        entry_bytes = entry_bytes_in(frame.blocks)
        ledger = await create_noted(
            self._purged, self._context, self._rng, Purpose.RESTORE, entry_bytes
        )
        try:
            await self._write(cold, frame, cold_store, ledger)
            await self._publish(cold, ledger)
        except BaseException:
            ledger.abort()
            raise
        cold_store.metrics.segments_restored_total += 1
        logger.info("cold_restored name=%s ledger=%d", cold.name, ledger.ledger_id)

    async def _write(
        self, cold: ColdSegment, frame: Verified, cold_store: ColdStore, ledger: NotedLedger
    ) -> None:
        span_bytes = cold_store.config.part_bytes
        async for entry in read_entries(cold.name, frame, cold_store.objects, span_bytes):
            await ledger.add([entry.payload])
        await ledger.close()

    async def _publish(self, restored: ColdSegment, ledger: NotedLedger) -> None:
        """Make the segment's node; what is in cold storage is a copy of this ledger from now on.

        Errors: MetadataConflict: it was purged, restored or copied anew, or trimmed just now.
        """
        lssn = restored.metadata.lssn
        version = await self._purged.version()
        path = self._paths.cold_segment(lssn)
        node = await self._store.exists(path)
        if node is None:
            raise MetadataConflict(f"segment {lssn} of {self._paths.log} was purged")
        cold = decode_cold(node.data, path)
        if cold.name != restored.name or not cold.is_copy_of(restored.metadata):
            raise MetadataConflict(f"segment {lssn} of {self._paths.log} has another copy by now")
        now = replace(cold.metadata, ledger_id=ledger.ledger_id)
        ops: list[Op] = [
            self._purged.guard(version),
            Create(self._paths.segment(completed_name(lssn)), encode_segment(now)),
            SetData(path, encode_cold(cold.with_metadata(now)), node.version),
            ledger.take(),
        ]
        await self._store.multi(ops)
