"""What each log segment of a partition holds: from memory, from its index record, or by reading it.

Segments that this owner wrote or replayed are in `PartitionState`; older ones left an index record
when they were completed. One that has none (written by another library, or completed by recovery)
is read once from end to end, from its snapshot on: it may end transactions that began before it.
Totals are kept for all segments, indexes for a few. An index record that cannot be read is as one
that is not there; entries that cannot be read are left out, and what was aborted there is not known
then. Aborted transactions are looked for only where the owner's state says that some are.

An index belongs to a ledger, not only to a segment: what is known of one that the cleaner, here or
in another process, wrote anew is dropped as soon as the list of segments says so.
"""

import asyncio
import logging
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import AsyncIterator, Mapping
from math import inf

from tailrace.broker.partition.aborted import AbortedTransaction
from tailrace.broker.partition.offsets import NO_TIMESTAMP, SegmentIndex, Totals
from tailrace.broker.partition.segment_state import PartitionState, decode_index
from tailrace.core.errors import ColdObjectNotFound, CorruptData, LedgerNotFound, LogTruncated
from tailrace.core.log.entries import EntryRecords
from tailrace.core.log.log import Log
from tailrace.core.log.reader_settings import READ_ALL, ReadRules
from tailrace.core.log.resume import Place
from tailrace.core.log.search import DAMAGED
from tailrace.core.metadata.segment_metadata import SegmentMetadata
from tailrace.protocol.distributedlog.dlsn import DLSN
from tailrace.protocol.distributedlog.record import LogRecord
from tailrace.protocol.ids import LedgerId, Offset

logger = logging.getLogger(__name__)

INDEXES_KEPT = 8
"""Of segments that this owner did not write, however large they are; the one used last stays."""
INDEX_BYTES_KEPT = 256 * 1024
"""More are kept while they are smaller than that together: one takes a KB, and 24 bytes a point."""
_UNKNOWN = LedgerId(-1)
SCAN_BYTES = 1024 * 1024
"""Bytes read at once from a segment without an index."""
DAMAGE_KEPT_S = 60.0
"""How long what is known of a damaged segment counts: its entries may be mended."""
LOST = (*DAMAGED, ColdObjectNotFound, LedgerNotFound)
"""What says that a segment's bytes are lost, or damaged in the copies that could be asked."""


class SegmentCatalog:
    """The segments of one partition, oldest first."""

    def __init__(self, log: Log, state: PartitionState) -> None:
        self._log = log
        self._state = state
        self._totals: dict[int, tuple[LedgerId, Totals]] = {}
        self._indexes: OrderedDict[int, SegmentIndex] = OrderedDict()
        self._rewrites = log.rewrites
        self._lost: set[int] = set()

    async def totals(self) -> AsyncIterator[tuple[int, Totals]]:
        """Yield sequence number and totals of every segment that has batches. Errors: CoreError."""
        async for lssn, totals in self.all_totals():
            if totals.batches:
                yield lssn, totals

    async def all_totals(self) -> AsyncIterator[tuple[int, Totals]]:
        """Yield the same of every segment; one that was cleaned may have nothing left."""
        await self._log.refresh()
        for segment in list(self._log.segments):
            try:
                totals = await self._totals_of(segment.lssn)
            except LogTruncated:
                continue  # it was purged or merged meanwhile
            yield segment.lssn, totals

    async def totals_to_trim(self) -> AsyncIterator[tuple[int, Totals]]:
        """Yield what `totals` does, so that one lost segment does not hide or keep all the others.

        One whose bytes cannot be had counts as no bytes; its end stands in the metadata.
        Errors: CoreError.
        """
        await self._log.refresh()
        for segment in list(self._log.segments):
            try:
                totals = await self._totals_of(segment.lssn)
            except LogTruncated:
                continue  # it was purged or merged meanwhile
            except LOST as error:
                if segment.in_progress:
                    raise
                self._note_lost(segment, error)
                totals = _by_metadata(segment)
            if totals.batches:
                yield segment.lssn, totals

    async def _totals_of(self, lssn: int) -> Totals:
        self._drop_rewritten()
        known = self._state.indexes.get(lssn)
        if known is not None:
            return known.totals
        if lssn in self._totals:
            return self._totals[lssn][1]
        return (await self.index(lssn)).totals

    def _note_lost(self, segment: SegmentMetadata, error: Exception) -> None:
        if segment.lssn not in self._lost:
            self._lost.add(segment.lssn)
            name = self._log.name
            logger.error("segment_unreadable log=%s lssn=%d error=%r", name, segment.lssn, error)

    def written_here(self, lssn: int) -> SegmentIndex | None:
        """Return the index of a segment that this owner wrote, or replayed; None of another."""
        self._drop_rewritten()
        return self._state.indexes.get(lssn)

    async def index(self, lssn: int) -> SegmentIndex:
        """Return the index of a segment. Errors: CoreError, LogTruncated if it is gone."""
        self._drop_rewritten()
        index = self._in_memory(lssn)
        while index is None:
            segment = self._log.segments.find(lssn)
            grows = segment is not None and segment.in_progress
            if grows and lssn > self._state.lssn:
                return SegmentIndex(self._state.next_offset)  # begun, and not written to yet
            rewrites, ledger_id = self._log.rewrites, self._ledger_of(lssn)
            index = await self._read_index(lssn) or await self._read_through(lssn)
            if rewrites != self._log.rewrites:
                index = None  # it may be of either ledger
                continue
            index.ledger_id = ledger_id
            if grows:
                return index
            self._keep(lssn, index)
        return index

    async def _read_index(self, lssn: int) -> SegmentIndex | None:
        """Return what a segment's index record says; None if there is none that can be read."""
        try:
            data = await self._log.read_index(lssn)
            return decode_index(data) if data else None
        except DAMAGED as error:
            self._note_damaged(lssn, error)
            return None

    def _note_damaged(self, lssn: int, error: Exception) -> None:
        name = self._log.name
        logger.warning("segment_damaged log=%s lssn=%d error=%r", name, lssn, error)

    def _in_memory(self, lssn: int) -> SegmentIndex | None:
        index = self._state.indexes.get(lssn)
        if index is None and lssn in self._indexes:
            index = self._indexes[lssn]
            self._indexes.move_to_end(lssn)
            if index.read_again_s <= asyncio.get_running_loop().time():
                del self._indexes[lssn]
                return None
        return index

    def _keep(self, lssn: int, index: SegmentIndex) -> None:
        if index.read_again_s == inf:
            self._totals[lssn] = index.ledger_id, index.totals
        self._indexes[lssn] = index
        size_bytes = sum(each.memory_bytes for each in self._indexes.values())
        while len(self._indexes) > INDEXES_KEPT and size_bytes > INDEX_BYTES_KEPT:
            _, dropped = self._indexes.popitem(last=False)
            size_bytes -= dropped.memory_bytes

    def position(self, offset: Offset) -> Place | None:
        """Return a place from which on a scan meets `offset`, if an index in memory knows one."""
        self._drop_rewritten()
        for indexes in (self._state.indexes, self._indexes):
            for lssn, index in reversed(indexes.items()):
                if index.first_offset <= offset < index.next_offset:
                    entry = index.entry_before(offset)
                    place = None if entry is None else DLSN(lssn, entry, 0)
                    return None if place is None else Place(place, index.ledger_id)
        return None

    def aborted_in_memory(self, first: Offset, last: Offset) -> list[AbortedTransaction] | None:
        """Return what `aborted_between` does, if nothing has to be read for it."""
        self._drop_rewritten()
        indexes = list(self._state.indexes.values())
        at = bisect_right(indexes, first, key=lambda index: index.first_offset) - 1
        found: list[AbortedTransaction] = []
        if at >= 0:
            for index in indexes[at:]:
                more, is_whole = index.aborted.overlapping(first, last)
                found += more
                if is_whole:
                    break
            return found
        for lssn in self._holders(first):
            known = self._in_memory(lssn)
            if known is None or known.read_again_s < inf:
                return None
            more, is_whole = known.aborted.overlapping(first, last)
            found += more
            if is_whole:
                break
        return found

    async def aborted_between(self, first: Offset, last: Offset) -> list[AbortedTransaction]:
        """Return the aborted transactions with records among offsets `first` to `last`.

        Shape: both inclusive, nothing in the range is undecided. Errors: CoreError. Cost: nothing
        is read if no transaction was aborted since `first`, or the range lies in segments of this
        owner; else indexes of segments that hold aborted ones, from the range's on, until one says
        that it ends with no transaction open that began in the range.
        """
        known = self.aborted_in_memory(first, last)
        if known is not None:
            return known
        found: list[AbortedTransaction] = []
        for lssn in self._holders(first):
            try:
                index = await self.index(lssn)
            except LogTruncated:  # it was purged or merged meanwhile
                return await self.aborted_between(first, last)
            if index.read_again_s < inf:
                raise CorruptData(f"what was aborted in segment {lssn} of {self._log.name} is lost")
            more, is_whole = index.aborted.overlapping(first, last)
            found += more
            if is_whole:
                break
        return found

    def _holders(self, first: Offset) -> list[int]:
        """Return the segments from that of `first` on which may hold aborted transactions."""
        segments = self._log.segments
        begin = segments.first_not_less(first)
        if begin is None:
            return []
        held = self._state.aborted.since(begin.lssn)
        if held is None:  # an older version wrote here
            return [each.lssn for each in segments if each.lssn >= begin.lssn]
        found = [lssn for lssn in held if segments.find(lssn) is not None]
        oldest = next(iter(segments)).lssn
        if begin.lssn == oldest not in found and self._state.aborted.may_be_through(oldest):
            found.insert(0, oldest)  # it may hold what older ones held that were merged into it
        return found

    def replace(self, indexes: Mapping[int, SegmentIndex]) -> None:
        """Take over what segments hold since they were rewritten, by sequence number."""
        for lssn, index in indexes.items():
            index.ledger_id = self._ledger_of(lssn)
            self._indexes.pop(lssn, None)
            self._totals[lssn] = index.ledger_id, index.totals
            if lssn in self._state.indexes:
                self._state.indexes[lssn] = index
        self._drop_rewritten()

    def _drop_rewritten(self) -> None:
        """Forget what is known of ledgers that are no segments' any more."""
        if self._rewrites == self._log.rewrites:
            return
        self._rewrites = self._log.rewrites
        for known in (self._state.indexes, self._indexes):
            for lssn in [each for each in known if self._is_old(each, known[each].ledger_id)]:
                del known[lssn]
        for lssn in [each for each, (of, _) in self._totals.items() if self._is_old(each, of)]:
            del self._totals[lssn]
        self._keep_newest_run()

    def _keep_newest_run(self) -> None:
        """Leave in the state the newest segments without a hole, which a range is looked up in."""
        known = self._state.indexes
        newest_first = list(reversed(known))
        run = [lssn for at, lssn in enumerate(newest_first) if lssn == newest_first[0] - at]
        for lssn in newest_first[len(run) :]:
            del known[lssn]

    def _is_old(self, lssn: int, ledger_id: LedgerId) -> bool:
        return ledger_id not in (_UNKNOWN, self._ledger_of(lssn))

    def _ledger_of(self, lssn: int) -> LedgerId:
        segment = self._log.segments.find(lssn)
        return _UNKNOWN if segment is None else segment.ledger_id

    def forget_missing(self) -> None:
        """Drop what is known of segments that were purged."""
        there = {segment.lssn for segment in self._log.segments}
        for known in (self._totals, self._indexes, self._state.indexes):
            for lssn in [lssn for lssn in known if lssn not in there]:
                del known[lssn]
        self._lost &= there

    async def end_snapshot(self, lssn: int) -> bytes:
        """Return the state behind a segment that has no index record, by reading it through.

        Errors: CoreError.
        """
        state = await self._begun(lssn)
        await self._replay(state, lssn, READ_ALL)
        return state.snapshot()

    async def _read_through(self, lssn: int) -> SegmentIndex:
        """Return what a segment holds, as far as it can be read. Errors: CoreError."""
        try:
            state = await self._begun(lssn)
            await self._replay(state, lssn, READ_ALL)
        except DAMAGED as error:
            self._note_damaged(lssn, error)
        else:
            return state.ended_index()
        try:
            state, is_whole = await self._begun(lssn), True
        except DAMAGED:
            state, is_whole = PartitionState(self._state.now_ms), False
            state.begin_segment(lssn, LedgerId(-1))
        await self._replay(state, lssn, ReadRules(skips_damaged=True))
        index, segment = state.ended_index(), self._log.segments.find(lssn)
        if segment is not None and not segment.in_progress:
            index.next_offset = max(index.next_offset, Offset(segment.last_txid + 1))
            is_whole &= index.batches == segment.record_count  # what is damaged held none
        if not is_whole:
            index.read_again_s = asyncio.get_running_loop().time() + DAMAGE_KEPT_S
        return index

    async def _begun(self, lssn: int) -> PartitionState:
        """Return the state before a segment. Errors: CoreError."""
        state = PartitionState(self._state.now_ms)
        state.restore(await self._snapshot_before(lssn))
        state.begin_segment(lssn, LedgerId(-1))
        return state

    async def _replay(self, state: PartitionState, lssn: int, rules: ReadRules) -> None:
        """Let a state take all records of one segment. Errors: CoreError."""
        segment = self._log.segments.find(lssn)
        rules = rules._replace(through_lssn=lssn)
        reader = await self._log.open_reader(DLSN(lssn, 0, 0), rules=rules)
        try:
            while entries := await reader.read_entries(SCAN_BYTES):
                for entry in entries:
                    _replay(state, entry)
                if segment is not None and state.next_offset > segment.last_txid >= 0:
                    return  # what is behind holds none, whether it can be read or not
        finally:
            await reader.close()

    async def _snapshot_before(self, lssn: int) -> bytes | None:
        """Return the state before a segment: its own record, or what the one before it ends with.

        Errors: CoreError, if neither can be read.
        """
        try:
            return await self._log.read_snapshot(lssn)
        except DAMAGED as error:
            try:
                before = await self._log.read_end_snapshot(lssn - 1)
            except (LogTruncated, *DAMAGED):
                before = None
            if before is None:
                raise error from None
            return before


def _by_metadata(segment: SegmentMetadata) -> Totals:
    """Say what is known of a completed segment whose records cannot be read.

    Its first offset is not: the metadata has the txid before it, or, of a log's first one, its own.
    """
    next_offset = Offset(segment.last_txid + 1)
    first_offset = max(segment.first_txid, 0)
    return Totals(first_offset, next_offset, segment.record_count, 0, 0, NO_TIMESTAMP, -1)


def _replay(state: PartitionState, entry: EntryRecords) -> None:
    columns = entry.columns
    for slot, (txid, batch) in enumerate(zip(columns.txids, columns.payloads, strict=True)):
        state.replay(DLSN(entry.lssn, entry.entry_id, slot), LogRecord(txid, batch))
