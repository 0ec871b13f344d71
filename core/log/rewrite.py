"""Rewriting completed segments: new ledgers under the same sequence numbers, all swapped at once.

Invariant: the log is the old segments or the new ones, never some of each, whatever dies when; and
no ledger is forgotten. New ledgers are noted before they are made (`noted_ledger.py`), the multi
that swaps them in takes their notes away and notes the old ones, which go when
`log.segment.delete.delay.ms` is over. That multi names the version of the guard (`purged.py`) that
was read before the segments were compared with what was copied: who truncated, purged, copied to
cold storage or rewrote meanwhile has changed either, and the rewrite fails. Rolling and
recovery touch segments in progress only, so a rewrite lives on when the log gets another owner.
One process at a time rewrites a log, by a lock like the owner's; what the lock cannot stop, a
process that sleeps through its session, fails by its notes: the next rewrite took them.

Data stays in its segment, or goes into the last one of the oldest, which then begin there: numbers
have no hole. A reader that finishes an old ledger goes on behind the last txid that it gave out, if
its segment is not there any more; a reader of Java's inside fails then, as after a purge, and goes
on by txid when it is opened again. Behind a segment that is not merged none can be. A segment that
is in cold storage only stays there (`rewrite_swap.py`).
"""

import logging
from collections.abc import Callable, Collection, Sequence
from random import Random
from typing import TYPE_CHECKING, Final

from tailrace.core.errors import (
    BadVersion,
    CannotRewrite,
    CoreError,
    MetadataConflict,
    NodeExists,
    Unavailable,
)
from tailrace.core.log.context import LogContext
from tailrace.core.log.noted_ledger import create_noted
from tailrace.core.log.owner_records import SegmentIndex
from tailrace.core.log.ownership import Ownership
from tailrace.core.log.purged import PurgedNodes, Purpose
from tailrace.core.log.rewrite_source import merged_source
from tailrace.core.log.rewrite_swap import Found, Now, SwapNodes
from tailrace.core.log.segment_copy import CopySource, SegmentCopy
from tailrace.core.log.segment_nodes import read_segments
from tailrace.core.log.subscribers import Subscribers
from tailrace.core.log.trimmer import SegmentHome
from tailrace.core.metadata.layout import LogPaths
from tailrace.core.metadata.segment_metadata import SegmentMetadata
from tailrace.core.metadata.store import Op
from tailrace.protocol.ids import Buffer, EntryId, LedgerId, TxId

if TYPE_CHECKING:
    from tailrace.core.log.cold.nodes import ColdSegment

logger = logging.getLogger(__name__)

_ATTEMPTS: Final = 8
"""Changes of others to other segments, or lost answers, after which a swap is given up."""

SEGMENTS_MAX: Final = 200
"""Segments of one rewrite; a kilobyte each in its multi, so far below NODE_BYTES_MAX."""


class SegmentRewrite:
    """A rewrite of some segments of one log: fill each in order, then `commit`, or `abort`.

    One call at a time. Made by `begin_rewrite`.
    """

    def __init__(
        self,
        place: "RewritePlace",
        claim: Ownership,
        found: dict[int, Found],
        merged: CopySource | None = None,
    ) -> None:
        """Made by `begin_rewrite`; `merged`: what all are together, if the last is to hold them."""
        self._place = place
        self._claim = claim
        self._found = found
        self._merged = merged
        self._copies: dict[int, SegmentCopy] = {}
        self._objects: dict[int, ColdSegment] = {}
        """Copies of the new ledgers of segments that are in cold storage only."""
        self._is_over = False

    def source(self, lssn: int) -> CopySource:
        """Return what a segment is so far."""
        return self._found[lssn].source

    async def append(self, lssn: int, txid: TxId, parts: Sequence[Buffer], length: int) -> EntryId:
        """Write a record to a segment, as soon as there is room; return the entry it goes into.

        Shape: txids of a segment rise, and are those of the records that it has; the parts,
        `length` bytes together, must not change until `finish`. Errors: TransactionIdOutOfOrder;
        LogRecordTooLong; NotEnoughBookies, BookieUnavailable; MetadataConflict: another rewrite
        took over. Memory: one entry that waits, and what `noted_ledger` has in flight.
        """
        copy = self._copies.get(lssn) or await self._copy(lssn)
        return await copy.append(txid, parts, length)

    async def finish(self, lssn: int, end_snapshot: bytes | None, index: bytes) -> None:
        """End a segment with the owner's record, and close its ledger. Errors: as `append`.

        One that is in cold storage only is copied there; errors of it: as ColdStore.copy.
        `end_snapshot`: the owner's state behind the segment; None: as it was. The snapshot of the
        state before it is copied as it was.
        """
        source = self.source(lssn)
        if end_snapshot is None:
            end_snapshot = b"" if source.end is None else source.end.end_snapshot
        copy = await self._copy(lssn)
        await copy.finish(SegmentIndex(end_snapshot, index))
        if self._found[lssn].is_cold and copy.metadata is not None:
            made = await self._place.nodes.copy_to_cold(copy.metadata, copy.ledger)
            self._objects[lssn] = made

    async def commit(self) -> list[SegmentMetadata]:
        """Put the new ledgers in the place of the old ones; return the segments as they are now.

        Errors: BadVersion: somebody truncated, purged, copied or rewrote one of them, or took the
        rewrite over; nothing was changed, `abort` it. OwnershipLost: the lock is lost; likewise.
        Unavailable: it may have happened; call it again, or `abort`, which finds out.
        """
        finished = [copy.metadata for copy in self._copies.values() if copy.metadata is not None]
        wanted = 1 if self._merged is not None else len(self._found)
        assert len(finished) == wanted, "commit before every segment was finished"
        await self._swap(finished)
        self._place.home.segments_rewritten(finished)  # first: the guard is known to have moved
        if self._merged is not None:
            self._place.home.segments_gone(finished[0].lssn - 1)
        await self._end()
        logger.info(
            "segments_rewritten log=%s lssns=%s in_cold_storage=%s",
            self._place.paths.log, list(self._found), list(self._objects),
        )  # fmt: skip
        return finished

    async def abort(self) -> None:
        """Delete the new ledgers, unless segments have them. Idempotent.

        Errors: none; what could not be deleted now goes with the next rewrite or `collect`.
        """
        if self._is_over:
            return
        for copy in self._copies.values():
            copy.ledger.abort()
        try:
            await self._place.discard_own()
        except CoreError as error:
            logger.info("rewrite_left log=%s error=%r", self._place.paths.log, error)
        await self._end()

    # ------------------------------------------------------------------ inside

    async def _copy(self, lssn: int) -> SegmentCopy:
        copy = self._copies.get(lssn)
        if copy is None:
            source = self._merged or self._found[lssn].source
            assert source.metadata.lssn == lssn, "merged segments go into the last one"
            found = self._found[lssn]
            old = [*self._found.values()] if self._merged is not None else [found]
            copy = await self._place.new_copy(source, old, goes_to_cold=found.is_cold)
            self._copies[lssn] = copy
            await copy.begin()
        return copy

    async def _end(self) -> None:
        self._is_over = True
        await self._claim.release()

    async def _swap(self, changed: Sequence[SegmentMetadata]) -> None:
        """Run the multi until it is certain what became of it. Errors: as `commit`."""
        place = self._place
        error: CoreError | None = None
        for _ in range(_ATTEMPTS):
            self._claim.check_ownership()
            place.check_owner()
            version = await place.purged.version()
            nodes = await place.nodes.read(changed)
            if all(each.is_swapped for each in nodes):
                return  # by a multi whose answer was lost
            ops: list[Op] = [place.purged.guard(version)]
            for new, now in zip(changed, nodes, strict=True):
                ops += self._ops(new, now)
            if self._merged is not None:
                ops += await self._ends()
            try:
                await place.store.multi(ops)
            except (MetadataConflict, Unavailable) as failed:
                logger.info("swap_raced log=%s error=%r", place.paths.log, failed)
                error = failed
            else:
                place.home.guard_moved(version)
                return
        if isinstance(error, Unavailable):
            raise error
        raise BadVersion(f"others took the rewrite of {place.paths.log} over: {error}")

    def _ops(self, new: SegmentMetadata, now: Now) -> list[Op]:
        """Return what one segment's swap consists of. Errors: BadVersion."""
        nodes, found = self._place.nodes, self._found[new.lssn]
        return [
            *nodes.ends(found, now),
            *nodes.becomes(found.source.metadata, new, self._objects.get(new.lssn)),
            self._copies[new.lssn].ledger.take(),
        ]

    async def _ends(self) -> list[Op]:
        """Return what ends the segments that went into the last one. Errors: BadVersion.

        They must still be the oldest ones: a number missing in the middle ends Java's readers.
        """
        place = self._place
        first, *others = self._found
        if await place.first_lssn() != first:
            raise BadVersion(f"{place.paths.log} begins before segment {first} by now")
        ended = [first, *others][:-1]
        now = await place.nodes.read([self._found[lssn].source.metadata for lssn in ended])
        return [
            op
            for lssn, each in zip(ended, now, strict=True)
            for op in place.nodes.ends(self._found[lssn], each)
        ]


class RewritePlace:
    """The log whose segments are rewritten, with its nodes."""

    def __init__(
        self,
        home: SegmentHome,
        paths: LogPaths,
        context: LogContext,
        check_owner: Callable[[], None],
    ) -> None:
        """`check_owner`: fails in a process that owns the log and lost its lock."""
        self.home = home
        self.paths = paths
        self.context = context
        self.store = context.store
        self.purged = PurgedNodes(context.store, paths)
        self.nodes = SwapNodes(paths, context, self.purged)
        self.check_owner = check_owner
        self._rng = Random()

    async def begin(self, lssns: Sequence[int], *, merges: bool = False) -> SegmentRewrite:
        """Begin to rewrite these segments; what an earlier rewrite left is deleted first.

        `merges`: into the last of them, which the others end for; they are the oldest of the log.

        Errors: OwnershipAcquireFailed: another process rewrites this log; MetadataConflict: a
        segment is gone or not completed; CannotRewrite: the end of a sealed log, a segment without
        a number, a log with subscribers; ColdStorageDisabled; CoreError. Cancel: nothing is left.
        Cost: two or three entries of each segment are read.
        """
        if not 0 < len(lssns) <= SEGMENTS_MAX:
            raise ValueError(f"{len(lssns)} segments; one multi swaps 1 to {SEGMENTS_MAX}")
        self.check_owner()
        claim = await self._claim()
        try:
            await self.discard_leftovers()
            await self._check_positions()
            await self.home.refresh()
            found = {lssn: await self._find(lssn) for lssn in lssns}
            merged = None
            if merges:
                sources = [each.source for each in found.values()]
                merged = merged_source(sources, await self.first_lssn(), self.paths.log)
        except BaseException:
            await claim.release()
            raise
        return SegmentRewrite(self, claim, found, merged)

    async def first_lssn(self) -> int:
        """Return the number of the oldest segment, here or in cold storage. Errors: CoreError."""
        segments = await read_segments(self.store, self.paths)
        return segments.segments[0].lssn if segments else 0

    async def new_copy(
        self, source: CopySource, old: Sequence[Found], *, goes_to_cold: bool
    ) -> SegmentCopy:
        """Make the ledger for a segment, for entries as large as those of the `old` ones may be.

        Errors: as `create_noted`; LedgerNotFound: it was deleted meanwhile; of cold storage.
        """
        entry_bytes = max([await self.nodes.entry_bytes(each) for each in old])
        cold, log, lssn = self.context.cold, self.paths.log, source.metadata.lssn

        def prefix(ledger_id: LedgerId) -> str | None:
            return cold.prefix(log, lssn, ledger_id) if cold is not None and goes_to_cold else None

        ledger = await create_noted(
            self.purged, self.context, self._rng, Purpose.REWRITE, entry_bytes, prefix
        )
        compresses = bool(self.context.config.compression.codec)
        return SegmentCopy(source, ledger, compresses=compresses)

    async def discard_leftovers(self) -> None:
        """Delete what was begun and never swapped in. Errors: CoreError."""
        await self._discard()

    async def discard_own(self) -> None:
        """Delete what this rewrite began, unless it was swapped in. Errors: CoreError."""
        await self._discard(self.purged.noted)

    async def _discard(self, only: Collection[LedgerId] | None = None) -> None:
        delete, cold = self.context.ledgers.delete_ledger, self.context.cold
        delete_objects = None if cold is None else cold.delete
        await self.purged.discard_new(Purpose.REWRITE, delete, delete_objects, only)

    async def _claim(self) -> Ownership:
        if await self.store.exists(self.paths.rewrite_lock) is None:
            try:
                await self.store.create(self.paths.rewrite_lock)
            except NodeExists:
                logger.debug("rewrite_lock_made_by_another log=%s", self.paths.log)
        claim = Ownership(self.store, self.paths.rewrite_lock, self.context.config.client_id)
        await claim.acquire(0)
        return claim

    async def _check_positions(self) -> None:
        subscribers = await Subscribers(self.store, self.paths).last_commits()
        if subscribers:
            raise CannotRewrite(
                f"{self.paths.log} has subscribers ({', '.join(sorted(subscribers)[:3])}): their"
                " positions are entry ids, which change"
            )

    async def _find(self, lssn: int) -> Found:
        known = self.home.segments.find(lssn)
        if known is None:
            raise MetadataConflict(f"segment {lssn} of {self.paths.log} is not there (any more)")
        return await self.nodes.find(known)
