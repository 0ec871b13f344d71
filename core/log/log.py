"""One log stream: what of it there is, and the doors for writing and reading.

Invariant: a log has one `Log` in a process (its namespace sees to that), which knows the segments:
from the owner's own steps while this process writes it, else from the metadata and its watch.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeAlias

from core.errors import BadVersion, ColdStorageDisabled, CoreError, EndOfStream, OwnershipLost
from core.log.allocation import delete_leftover
from core.log.context import LogContext
from core.log.known_segments import KnownSegments
from core.log.log_reading import LogReading
from core.log.owner import LogListener, NoState, SegmentState
from core.log.ownership import Ownership
from core.log.prepared import PreparedAllocator
from core.log.read_lock import LockedReader, open_locked_reader, read_lock_path
from core.log.reader import LogReader
from core.log.recovery import (
    find_state,
    read_index,
    read_snapshot,
    recover_segments,
    restore_state,
)
from core.log.resume import Place
from core.log.rewrite import RewritePlace, SegmentRewrite
from core.log.segment_chain import SegmentChain
from core.log.segment_ledger import SegmentLedger
from core.log.segment_nodes import (
    Listing,
    SegmentNodes,
    delete_segment_node,
    read_segments,
)
from core.log.segment_view import SegmentView
from core.log.segment_writer import SegmentWriter
from core.log.segments import SegmentList
from core.log.tiered import open_segment
from core.log.upkeep import LogUpkeep
from core.log.writer import LogWriter
from core.metadata.layout import LogPaths
from core.metadata.segment_metadata import SegmentMetadata
from protocol.distributedlog.dlsn import DLSN
from protocol.distributedlog.record import END_OF_STREAM_TXID
from protocol.ids import TxId

logger = logging.getLogger(__name__)

CheckMay: TypeAlias = Callable[[], Awaitable[None]]
"""Looks whether a log may be deleted. Errors: LogNotFound when it is not the log that is meant."""

_TRUNCATE_ATTEMPTS: Final = 3


class Log:
    """One log stream; made by `LogNamespace.open_log`."""

    def __init__(self, name: str, paths: LogPaths, context: LogContext) -> None:
        self.name = name
        self._paths = paths
        self._context = context
        self._store = context.store
        self._ledgers = context.ledgers
        self._config = context.config
        self._known = KnownSegments(context.store, paths, self.on_tail_moved)
        self._data_version: int | None = None
        self._writer: LogWriter | None = None
        self._ownership: Ownership | None = None
        self._segment_writers: dict[int, SegmentWriter] = {}
        self._reading = LogReading(self, self._open_ledger, context)
        self._upkeep: LogUpkeep | None = None

    @property
    def segments(self) -> SegmentList:
        """The segments, oldest first; all of them after `refresh`.

        Without it a writer knows only those from the last completed one on.
        """
        return self._known.segments

    @property
    def rewrites(self) -> int:
        """Rises when completed segments get other ledgers, as far as this log's writer hears."""
        return self._known.rewrites

    @property
    def writer(self) -> LogWriter | None:
        """The writer of this process, if it has the log."""
        return self._writer

    # ------------------------------------------------------------------ application metadata

    async def get_data(self) -> bytes:
        """Return what the application keeps with the log. Errors: NoNode."""
        node = await self._store.get(self._paths.log)
        self._data_version = node.version
        return node.data

    async def set_data(self, data: bytes) -> None:
        """Replace what `get_data`, or the last `set_data`, saw of the application's data.

        Errors: BadVersion when somebody else replaced it since, or when an answer was lost: until
        it is got again; NoNode.
        """
        if self._data_version is None:
            await self.get_data()
        version = self._data_version
        assert version is not None, "get_data did not say which version there is"
        self._data_version = await self._store.set(self._paths.log, data, version)

    # ------------------------------------------------------------------ writing

    async def open_writer(
        self, listener: LogListener, state: SegmentState | None = None
    ) -> LogWriter:
        """Own the log: claim it, stop whoever wrote it, recover it, restore `state` from it.

        A failed writer of this process is given up first. Errors: OwnershipLost names the owner;
        EndOfStream; BookieUnavailable, NotEnoughBookies (try again); CorruptData.
        Cancel: the log is given up.
        """
        if self._writer is not None and self._writer.error is not None:
            await self._writer.abort()
        if self._ownership is not None:
            raise OwnershipLost(f"this process writes, opens or deletes {self.name} already")
        if self._config.cold_storage and self._context.cold is None:
            raise ColdStorageDisabled(
                f"{self.name}: log.cold.storage.enable needs cold.storage.url"
            )
        self._ownership = ownership = self._new_claim(self._on_refused)
        try:
            await self._acquire(ownership)
            self._writer = await self._take_over(listener, state)
            ownership.check_not_refused()
        except BaseException:
            await self._give_up(ownership)
            raise
        return self._writer

    async def _acquire(self, ownership: Ownership) -> None:
        clock = self._context.clock
        began_s = clock.monotonic_s()
        await ownership.acquire(self._config.lock_timeout_s * 1000)
        self._context.metrics.lock_wait_ms = round(1000 * (clock.monotonic_s() - began_s))

    async def _give_up(self, ownership: Ownership) -> None:
        """End an opening that failed."""
        writer, self._ownership = self._writer, None
        self._known.let_go()
        try:
            if writer is not None:
                await writer.abort()
        finally:
            await ownership.release()

    async def _take_over(self, listener: LogListener, state: SegmentState | None) -> LogWriter:
        clock, metrics = self._context.clock, self._context.metrics
        began_s = clock.monotonic_s()
        nodes = SegmentNodes(self._store, self._paths)
        listing = await nodes.load()
        allocator = PreparedAllocator(self._context.allocator(nodes.allocation))
        try:
            segments = await self._recover(listing.segments, nodes, allocator)
            await self._become_owner(listing._replace(segments=segments), state)
            chain = SegmentChain(self, nodes, state or NoState(), self._context, allocator)
        except CoreError:
            await allocator.give_back()
            raise
        except BaseException:
            allocator.abandon()
            raise
        last_txid = max(segments.last_txid, nodes.max_txid if segments else segments.last_txid)
        metrics.writers += 1
        metrics.take_over_ms = round(1000 * (clock.monotonic_s() - began_s))
        self._upkeep_if_wanted()
        return LogWriter(self, chain, listener, self._context, last_txid=last_txid)

    async def _recover(
        self, known: SegmentList, nodes: SegmentNodes, allocator: PreparedAllocator
    ) -> SegmentList:
        """Recover what is in progress, and make the next segment's ledger meanwhile.

        Only then: a log that nobody wrote when its owner died may not be written now. Its own
        allocator's only.
        """
        if not any(segment.in_progress for segment in known):
            return known
        recovered: SegmentList | CoreError
        try:
            async with asyncio.TaskGroup() as group:
                if self._context.pool is None:  # whose allocators are few, for those who write
                    group.create_task(allocator.prepare())
                try:
                    recovered = await recover_segments(known, nodes, self._context)
                except CoreError as error:
                    recovered = error  # once the ledger is made, or it could not be given back
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from None
        if isinstance(recovered, CoreError):
            raise recovered
        return recovered

    async def _become_owner(self, recovered: Listing, state: SegmentState | None) -> None:
        segments, is_whole, guard = recovered
        if segments.last_txid == END_OF_STREAM_TXID:
            raise EndOfStream(f"{self.name} was sealed")
        was_read = bool(self.segments)
        self._reading.views.clear()
        self._known.take(segments, is_whole=is_whole, guard=guard)
        if was_read:  # by readers that may be anywhere
            await self._known.load_older()
        if state is not None:
            await self._restore(state)

    async def _restore(self, state: SegmentState) -> None:
        found = await find_state(self.segments, self._open_ledger)
        if found is None and not self._known.is_whole:
            await self._known.load_older()
            found = await find_state(self.segments, self._open_ledger)
        await restore_state(found, self.segments, self._open_ledger, state, self._context)

    def _new_claim(self, on_refused: Callable[[OwnershipLost], None] | None = None) -> Ownership:
        config = self._config
        return Ownership(
            self._store,
            self._paths.lock,
            config.client_id,
            on_refused,
            config.lock_reacquire_timeout_s,
            is_exclusive=config.client_id_is_exclusive,
        )

    def _on_refused(self, error: OwnershipLost) -> None:
        if self._writer is not None:
            self._writer.fail(error)

    async def on_writer_gone(self, writer: LogWriter) -> None:
        """Give up the ownership (WriterHome)."""
        if self._writer is not writer:
            return
        self._writer = None
        self._known.let_go()
        self._context.metrics.writers -= 1
        self._segment_writers.clear()
        self._reading.views.clear()
        self.on_tail_moved()
        ownership, self._ownership = self._ownership, None
        if ownership is not None:
            await ownership.release()

    def segment_started(self, segment: SegmentWriter) -> None:
        """Take a segment that our writer started into the list (SegmentBook)."""
        self._segment_writers[segment.metadata.lssn] = segment
        self._known.put(segment.metadata)

    def segment_completed(self, metadata: SegmentMetadata) -> None:
        """Take a segment that our writer completed into the list (SegmentBook)."""
        self._segment_writers.pop(metadata.lssn, None)
        self._known.put(metadata)
        self._upkeep_if_wanted()

    def writer_of(self, lssn: int) -> SegmentWriter | None:
        """Return who in this process writes a segment (WriterLookup)."""
        return self._segment_writers.get(lssn)

    # ------------------------------------------------------------------ reading

    async def open_reader(
        self, start: DLSN | TxId, near: Place | None = None, *, reads_ahead: bool = True
    ) -> LogReader:
        """Return a reader of the records with DLSN >= `start`, or with txid >= `start`.

        Close it after use. A position in a part that was truncated counts as the first one that is
        kept; a txid above all is waited for. `near`: a place at or before the txid's record, not
        far from it, from a caller's own index or `find`; nothing is searched then, unless the
        segment was rewritten since. A DLSN counts in the ledger that its segment has at the first
        read. `reads_ahead`: False for one who takes a little and closes it again.
        Errors: LogNotFound; for a txid as `find`.
        """
        return await self._reading.open_reader(start, near, reads_ahead=reads_ahead)

    async def open_reader_with_lock(
        self, start: DLSN | TxId, subscriber: str = "", wait_ms: int = -1
    ) -> LockedReader:
        """Return the one reader of the log, or of a subscriber's, that holds the reader lock.

        Waits for the lock (negative: for ever). Errors: OwnershipAcquireFailed names the holder;
        as `open_reader`.
        """
        path = await read_lock_path(self._store, self._paths, subscriber)
        config = self._config
        claim = Ownership(
            self._store,
            path,
            config.client_id,
            reacquire_timeout_s=config.lock_reacquire_timeout_s,
        )
        return await open_locked_reader(claim, wait_ms, lambda: self.open_reader(start))

    async def find(self, txid: TxId) -> Place | None:
        """Return the first confirmed record with txid >= `txid`; None when there is none.

        Errors: LogTruncated, when the log is purged meanwhile; BookieUnavailable, CorruptData.
        """
        return await self._reading.find(txid)

    async def locate(self, txid: TxId, hint: DLSN | None = None) -> DLSN | None:
        """Do the same where no segment is rewritten meanwhile; its places then have other DLSNs.

        `hint`: a position at or before the record, not far from it. Errors: as `find`.
        """
        found = await self._reading.find(txid, hint)
        return None if found is None else found.dlsn

    async def read_index(self, lssn: int) -> bytes | None:
        """Return what `SegmentState.index` said when a segment ended; None when it has none.

        Errors: LogTruncated; BookieUnavailable, CorruptData. Cost: one read.
        """

        async def read() -> bytes | None:
            view = await self.view(lssn)
            if not view.ledger.is_closed:
                return None
            found = await read_index(view.metadata, view.ledger)
            return None if found is None else found.segment_index

        return await self._reading.with_segments_there(read)

    async def read_snapshot(self, lssn: int) -> bytes | None:
        """Return what `SegmentState.snapshot` said when a segment began; None when it has none.

        Errors: LogTruncated; BookieUnavailable, CorruptData. Cost: one read.
        """

        async def read() -> bytes | None:
            view = await self.view(lssn)
            return await read_snapshot(view.metadata, view.ledger)

        return await self._reading.with_segments_there(read)

    async def view(self, lssn: int) -> SegmentView:
        """Open a segment for reading. Errors: LogTruncated, LedgerNotFound."""
        return await self._reading.view(lssn)

    async def _open_ledger(self, segment: SegmentMetadata) -> SegmentLedger:
        return await open_segment(segment, self._paths, self._context)

    # ------------------------------------------------------------------ the list of segments

    @property
    def is_owned_here(self) -> bool:
        """Whether this process writes the log (ReadingHome)."""
        return self._writer is not None

    @property
    def tail_version(self) -> int:
        """Rises with everything that may have made more readable."""
        return self._reading.tail_version

    async def refresh(self, *, is_forced: bool = False) -> None:
        """Read the list of segments if it may have changed, or if a notification may be lost.

        Errors: LogNotFound, CorruptData.
        """
        await self._known.refresh(is_forced=is_forced)

    def on_tail_moved(self) -> None:
        """Wake up who waits at the tail (WriterHome)."""
        self._reading.on_tail_moved()

    async def tail_moved(self, seen_version: int) -> None:
        """Wait until `tail_version` is another, or for a while if others write the log."""
        await self._reading.tail_moved(seen_version)

    # ------------------------------------------------------------------ truncation

    @property
    def upkeep(self) -> LogUpkeep:
        """What keeps the log short, and in cold storage."""
        if self._upkeep is None:
            self._upkeep = LogUpkeep(self, self._paths, self._context)
        return self._upkeep

    async def truncate(self, dlsn: DLSN) -> None:
        """Give up every record before `dlsn` in completed segments. Errors: as the trimmer's."""
        self._check_lock()
        await self.upkeep.trimmer.truncate(dlsn)

    async def truncate_before(
        self, txid: TxId, check_may: Callable[[], None] = lambda: None
    ) -> None:
        """Give up every record with a lower txid in completed segments, if one is not lower.

        `check_may` is called once that record is found. Errors: what it raises; as the trimmer's
        and `find`'s; BadVersion when the segment is rewritten all the time.
        """
        for left in range(_TRUNCATE_ATTEMPTS - 1, -1, -1):
            place = await self.find(txid)
            check_may()
            self._check_lock()
            try:
                if place is not None:
                    await self.upkeep.trimmer.truncate(*place)
            except BadVersion:
                if not left:
                    raise
            else:
                return

    def _upkeep_if_wanted(self) -> None:
        if self._config.cold_storage or self._config.retention_hours:
            self.upkeep.ask()

    async def purge_segments(self, before_lssn: int) -> list[SegmentMetadata]:
        """End the completed segments below `before_lssn`, but the last one; return them.

        Readers inside may go on for `log.segment.delete.delay.ms`, then they get LogTruncated.
        """
        self._check_lock()
        return await self.upkeep.trimmer.purge(before_lssn)

    async def rewrite(self, lssns: Sequence[int]) -> SegmentRewrite:
        """Begin to write completed segments anew, in this process or another than the owner's.

        Errors: as `RewritePlace.begin`.
        """
        place = RewritePlace(self, self._paths, self._context, self._check_lock)
        return await place.begin(lssns)

    def _check_lock(self) -> None:
        """Refuse an owner without its lock: no fence protects completed segments from two owners.

        Errors: OwnershipLost.
        """
        if self._ownership is not None:
            self._ownership.check_ownership()

    def segments_rewritten(self, segments: Sequence[SegmentMetadata]) -> None:
        """Take over what completed segments say now (SegmentHome)."""
        for segment in segments:
            known = self.segments.find(segment.lssn)
            if known is not None and known.ledger_id != segment.ledger_id:
                self._reading.views.forget(known.ledger_id)
        self._known.rewrite(segments)

    def guard_moved(self, before: int | None) -> None:
        """Hear of a change of our own to completed segments (SegmentHome)."""
        self._known.guard_moved(before)

    def segments_gone(self, through_lssn: int) -> None:
        """Forget the oldest segments (SegmentHome)."""
        for segment in self._known.drop_through(through_lssn):
            self._reading.views.forget(segment.ledger_id)

    async def close(self) -> None:
        """Give up the writer, if there is one, without completing anything. Idempotent."""
        if self._writer is not None:
            await self._writer.abort()
        if self._upkeep is not None:
            await self._upkeep.close()
            self._upkeep = None
        await self._reading.close()

    async def delete(self, check_may: CheckMay | None = None) -> None:
        """Delete the log with all its ledgers; the writer of this process is given up.

        `check_may` is called once nobody else can delete it. Errors: what it raises; OwnershipLost:
        another process has it, or this one is opening it; CoreError: what is left can be deleted
        again.
        """
        await self.close()
        if self._ownership is not None:
            raise OwnershipLost(f"{self.name} is being opened in this process")
        self._ownership = ownership = self._new_claim()  # so nobody here opens it meanwhile
        try:
            await ownership.acquire(self._config.lock_timeout_s * 1000)
            if check_may is not None:
                await check_may()
            await self.upkeep.trimmer.drop_purged_and_cold()
            for segment in await read_segments(self._store, self._paths):
                await self._ledgers.delete_ledger(segment.ledger_id)
                await delete_segment_node(self._store, self._paths, segment)
            await delete_leftover(self._store, self._paths.allocation, self._ledgers)
            self._reading.views.clear()
            self._known.clear()
        finally:
            self._ownership = None
            await ownership.release()
