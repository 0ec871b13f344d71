"""Copying a log's completed segments to cold storage, and saying so in the metadata.

Invariant: oldest first and none left out, so that what is in cold storage and what is on bookies
follow each other without a hole. A segment counts as copied when its cold node is there: made by
one multi under the guard of `purged.py`, only while the segment itself is still in the metadata,
with the ledger that was copied. One that is rewritten is copied anew: the multi that swaps it takes
the old ledger's copy away (`rewrite.py`).
"""

import logging
from typing import TYPE_CHECKING, Final

from tailrace.core.errors import (
    BadVersion,
    ColdStorageDisabled,
    ColdStorageUnavailable,
    CorruptData,
    LedgerNotFound,
    LogNotFound,
    MetadataConflict,
    NodeExists,
    NoNode,
)
from tailrace.core.log.cold.nodes import ColdSegment, decode_cold, encode_cold, read_cold
from tailrace.core.log.cold.store import ColdStore
from tailrace.core.log.context import LogContext
from tailrace.core.log.purged import PurgedNodes
from tailrace.core.log.trimmer import SegmentHome
from tailrace.core.metadata.layout import LogPaths
from tailrace.core.metadata.segment_metadata import SegmentMetadata, decode_segment, segment_name
from tailrace.core.metadata.store import Create, Delete, Node, Op
from tailrace.protocol.ids import TxId

if TYPE_CHECKING:
    from tailrace.protocol.ids import LedgerId

logger = logging.getLogger(__name__)

_ATTEMPTS: Final = 8


class ColdCopier:
    """Copies one log. Any process may, at any time; the writer's does."""

    def __init__(self, home: SegmentHome, paths: LogPaths, context: LogContext) -> None:
        self._home = home
        self._paths = paths
        self._context = context
        self._store = context.store
        self._purged = PurgedNodes(context.store, paths)
        self._copied: dict[int, LedgerId] = {}
        """The ledger that is in cold storage, by LSSN; as far as this process knows."""

    async def copy_completed(self, before: TxId | None = None) -> list[int]:
        """Copy what was completed and is not in cold storage yet; return the LSSNs.

        `before`: only segments whose records all have smaller txids.
        Errors: ColdStorageDisabled; CorruptData: a completed segment whose ledger is not closed;
        ColdStorageUnavailable, BookieUnavailable, ...: what was copied before stays copied, the
        rest is for the next call. Cancel: likewise.
        """
        cold = self._context.cold
        if cold is None:
            raise ColdStorageDisabled(f"{self._paths.log}: cold.storage.url is not set")
        await self._home.refresh()
        copied: list[int] = []
        there = {} if self._copied else await read_cold(self._store, self._paths)
        for segment in list(self._home.segments):
            if segment.in_progress or (before is not None and segment.last_txid >= before):
                break
            if segment.lssn < 1 or self._copied.get(segment.lssn) == segment.ledger_id:
                continue  # segments of version 1 have no number: they stay on bookies
            known = there.get(segment.lssn)
            is_copied = known is not None and known.is_copy_of(segment)
            if not is_copied and await self._copy_if_needed(segment, cold):
                copied.append(segment.lssn)
            self._copied[segment.lssn] = segment.ledger_id
        first = self._home.segments.segments[0].lssn if self._home.segments else 0
        for lssn in [each for each in self._copied if each < first]:
            del self._copied[lssn]
        return copied

    async def _copy_if_needed(self, segment: SegmentMetadata, cold: ColdStore) -> bool:
        """Copy a segment unless a copy of the ledger that it has is there."""
        node = await self._store.exists(self._paths.cold_segment(segment.lssn))
        if node is not None and self._decode(segment, node).is_copy_of(segment):
            return False
        return await self._copy(segment, cold)

    def _decode(self, segment: SegmentMetadata, node: Node) -> ColdSegment:
        return decode_cold(node.data, self._paths.cold_segment(segment.lssn))

    async def _copy(self, segment: SegmentMetadata, cold: ColdStore) -> bool:
        """Copy one segment; False when another process did, or purged or rewrote it."""
        try:
            ledger = await self._context.ledgers.open_ledger(segment.ledger_id, recover=False)
        except LedgerNotFound:
            node = await self._store.exists(self._segment_path(segment))
            if node is not None and decode_segment(node.data).ledger_id == segment.ledger_id:
                raise
            return False
        if not ledger.is_closed:
            raise CorruptData(
                f"ledger {ledger.ledger_id} of segment {segment.lssn} of {self._paths.log} is open,"
                f" the segment completed: run tailrace ledger recover {ledger.ledger_id}, then"
                " tailrace log check"
            )
        made = await cold.copy(self._paths.log, segment, ledger)
        try:
            is_published = await self._publish(segment, made)
        except LogNotFound:  # the log is being deleted: nobody will ever name the object
            is_published = False
        if not is_published:
            logger.info("cold_copy_not_needed name=%s", made.name)
            await cold.objects.delete(made.name)
            return False
        logger.info("cold_copied name=%s size=%d", made.name, made.size_bytes)
        try:
            await cold.delete_others(made)
        except ColdStorageUnavailable as error:
            logger.warning("cold_leftovers_not_deleted prefix=%s error=%s", made.prefix, error)
        return True

    async def _publish(self, segment: SegmentMetadata, made: ColdSegment) -> bool:
        """Make the cold node; False when it is there, or the segment is not, any more.

        A copy of another ledger than the segment's is given up: nobody may read it.
        Errors: Unavailable: it may be there, so the object stays. MetadataConflict.
        """
        path = self._paths.cold_segment(segment.lssn)
        for _ in range(_ATTEMPTS):
            version = await self._purged.version()
            node = await self._store.exists(self._segment_path(segment))
            if node is None:
                return False
            now = decode_segment(node.data)  # it may have been truncated since
            there = await self._store.exists(path)
            other = None if there is None else self._decode(segment, there)
            if now.ledger_id != segment.ledger_id or (other is not None and other.is_copy_of(now)):
                return False
            ops: list[Op] = [self._purged.guard(version)]
            if await self._store.exists(self._paths.cold) is None:
                ops.append(Create(self._paths.cold))
            if other is not None and there is not None:
                due_ms = self._context.clock.now_ms() + self._context.config.delete_delay_ms
                ops.append(Delete(path, there.version))
                ops.append(self._purged.note_cold(other.prefix, due_ms))
            ops.append(Create(path, encode_cold(made.with_metadata(now))))
            try:
                await self._store.multi(ops)
            except (BadVersion, NodeExists, NoNode) as error:
                logger.info("cold_publish_raced log=%s error=%s", self._paths.log, error)
            else:
                self._home.guard_moved(version)
                return True
        raise MetadataConflict(f"others kept changing the segments of {self._paths.log}")

    def _segment_path(self, segment: SegmentMetadata) -> str:
        return self._paths.segment(segment_name(segment))
