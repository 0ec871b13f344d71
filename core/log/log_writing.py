"""Writing one log: who owns it in this process, how an owner takes over, what it writes now.

Invariant: a claim stands from before the lock is asked for until after it is let go, so nobody else
in this process opens, writes or deletes the log meanwhile; other processes meet the lock, and
whoever wrote before meets the fence of recovery.

    open: claim -> lock -> segments listed -> recovered -> state restored -> writer
"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Protocol

from tailrace.core.errors import ColdStorageDisabled, CoreError, EndOfStream, OwnershipLost
from tailrace.core.log.context import LogContext
from tailrace.core.log.delta_recovery import restore_deltas
from tailrace.core.log.known_segments import KnownSegments
from tailrace.core.log.log_tail import TailWatcher
from tailrace.core.log.owner import DeltaState, LogListener, NoState, SegmentState
from tailrace.core.log.ownership import Ownership
from tailrace.core.log.prepared import PreparedAllocator
from tailrace.core.log.recovery import find_state, recover_segments, restore_state
from tailrace.core.log.segment_chain import SegmentChain
from tailrace.core.log.segment_ledger import SegmentLedger
from tailrace.core.log.segment_nodes import Listing, SegmentNodes
from tailrace.core.log.segment_writer import SegmentWriter
from tailrace.core.log.segments import SegmentList
from tailrace.core.log.writer import LogWriter
from tailrace.core.metadata.layout import LogPaths
from tailrace.core.metadata.segment_metadata import SegmentMetadata
from tailrace.core.runtime.tasks import both
from tailrace.protocol.distributedlog.record import END_OF_STREAM_TXID


class WritingHome(TailWatcher, Protocol):
    """The log as its owner needs it."""

    @property
    def name(self) -> str:
        """Its name."""

    def forget_views(self) -> None:
        """Open every segment anew before it is read: another than before knows how far it goes."""

    async def open_ledger(self, segment: SegmentMetadata) -> SegmentLedger:
        """Open what a segment lies in. Errors: LedgerNotFound, BookieUnavailable."""

    def upkeep_if_wanted(self) -> None:
        """Have what the log's own settings say about its length looked after."""


class LogWriting:
    """The owner's side of one log (SegmentBook, WriterHome). All calls come from the loop."""

    __slots__ = (
        "_context",
        "_home",
        "_known",
        "_ownership",
        "_paths",
        "_segment_writers",
        "on_tail_moved",
        "writer",
    )

    def __init__(
        self, home: WritingHome, known: KnownSegments, paths: LogPaths, context: LogContext
    ) -> None:
        self.writer: LogWriter | None = None
        """The writer of this process, if it has the log."""
        self.on_tail_moved = home.on_tail_moved
        """Wakes up who waits at the tail (WriterHome); once for each answer of a bookie."""
        self._home = home
        self._known = known
        self._paths = paths
        self._context = context
        self._ownership: Ownership | None = None
        self._segment_writers: dict[int, SegmentWriter] = {}

    # ------------------------------------------------------------------ the claim

    async def open(self, listener: LogListener, state: SegmentState | None) -> LogWriter:
        """Own the log, as `Log.open_writer`."""
        if self.writer is not None and self.writer.error is not None:
            await self.writer.abort()
        name, context = self._home.name, self._context
        if self._ownership is not None:
            raise OwnershipLost(f"this process writes, opens or deletes {name} already")
        if context.config.cold_storage and context.cold is None:
            raise ColdStorageDisabled(f"{name}: log.cold.storage.enable needs cold.storage.url")
        self._ownership = ownership = self._new_claim(self._on_refused)
        try:
            await self._acquire(ownership)
            number = await ownership.take_number()
            self.writer = await self._take_over(listener, state, number)
            ownership.check_not_refused()
        except BaseException:
            await self._give_up(ownership)
            raise
        return self.writer

    @asynccontextmanager
    async def kept_from_all(self) -> AsyncIterator[None]:
        """Own the log without writing it, so that nobody opens it meanwhile.

        Errors: OwnershipLost: another process has it, or this one is opening it.
        """
        if self._ownership is not None:
            raise OwnershipLost(f"{self._home.name} is being opened in this process")
        self._ownership = ownership = self._new_claim()
        try:
            await ownership.acquire(self._context.config.lock_timeout_s * 1000)
            yield
        finally:
            self._ownership = None
            await ownership.release()

    def check_lock(self) -> None:
        """Refuse an owner without its lock: no fence protects completed segments from two owners.

        Errors: OwnershipLost.
        """
        if self._ownership is not None:
            self._ownership.check_ownership()

    async def close(self) -> None:
        """Give up the writer, if there is one, without completing anything. Idempotent."""
        if self.writer is not None:
            await self.writer.abort()

    def _new_claim(self, on_refused: Callable[[OwnershipLost], None] | None = None) -> Ownership:
        config = self._context.config
        return Ownership(
            self._context.store,
            self._paths.lock,
            config.client_id,
            on_refused,
            config.lock_reacquire_timeout_s,
            is_exclusive=config.client_id_is_exclusive,
        )

    async def _acquire(self, ownership: Ownership) -> None:
        clock = self._context.clock
        began_s = clock.monotonic_s()
        await ownership.acquire(self._context.config.lock_timeout_s * 1000)
        self._context.metrics.lock_wait_ms = round(1000 * (clock.monotonic_s() - began_s))

    async def _give_up(self, ownership: Ownership) -> None:
        """End an opening that failed."""
        writer, self._ownership = self.writer, None
        self._known.let_go()
        try:
            if writer is not None:
                await writer.abort()
        finally:
            await ownership.release()

    def _on_refused(self, error: OwnershipLost) -> None:
        if self.writer is not None:
            self.writer.fail(error)

    # ------------------------------------------------------------------ taking over

    async def _take_over(
        self, listener: LogListener, state: SegmentState | None, number: int
    ) -> LogWriter:
        context = self._context
        clock, metrics = context.clock, context.metrics
        began_s = clock.monotonic_s()
        nodes = SegmentNodes(context.store, self._paths)
        listing = await nodes.load()
        allocator = PreparedAllocator(context.allocator(nodes.allocation))
        try:
            segments = await self._recover(listing.segments, nodes, allocator)
            await self._become_owner(listing._replace(segments=segments), state)
            chain = SegmentChain(self, nodes, state or NoState(), context, allocator)
        except CoreError:
            await allocator.give_back()
            raise
        except BaseException:
            allocator.abandon()
            raise
        last_txid = max(segments.last_txid, nodes.max_txid if segments else segments.last_txid)
        metrics.writers += 1
        metrics.take_over_ms = round(1000 * (clock.monotonic_s() - began_s))
        self._home.upkeep_if_wanted()
        return LogWriter(self, chain, listener, context, last_txid=last_txid, number=number)

    async def _recover(
        self, known: SegmentList, nodes: SegmentNodes, allocator: PreparedAllocator
    ) -> SegmentList:
        """Recover what is in progress, and make the next segment's ledger meanwhile.

        Only then: a log that nobody wrote when its owner died may not be written now. Its own
        allocator's only.
        """
        if not any(segment.in_progress for segment in known):
            return known
        if self._context.pool is not None:  # whose allocators are few, for those who write
            return await recover_segments(known, nodes, self._context)
        recovered, _ = await both(self._try_recover(known, nodes), allocator.prepare())
        if isinstance(recovered, CoreError):
            raise recovered
        return recovered

    async def _try_recover(
        self, known: SegmentList, nodes: SegmentNodes
    ) -> SegmentList | CoreError:
        """Return an error: raised at once, it would leave a ledger that could not be given back."""
        try:
            return await recover_segments(known, nodes, self._context)
        except CoreError as error:
            return error

    async def _become_owner(self, recovered: Listing, state: SegmentState | None) -> None:
        segments, is_whole, guard = recovered
        if segments.last_txid == END_OF_STREAM_TXID:
            raise EndOfStream(f"{self._home.name} was sealed")
        await self._known.take(segments, is_whole=is_whole, guard=guard)
        self._home.forget_views()
        if state is not None:
            await self._restore(state)

    async def _restore(self, state: SegmentState) -> None:
        open_ledger = self._home.open_ledger
        if isinstance(state, DeltaState):
            now_ms = self._context.clock.now_ms()
            is_found = await restore_deltas(self.segments, open_ledger, state, now_ms)
            if not is_found and not self._known.is_whole:
                await self._known.load_older()
                await restore_deltas(self.segments, open_ledger, state, now_ms)
            return
        found = await find_state(self.segments, open_ledger)
        if found is None and not self._known.is_whole:
            await self._known.load_older()
            found = await find_state(self.segments, open_ledger)
        await restore_state(found, self.segments, open_ledger, state, self._context)

    # ------------------------------------------------------------------ what the writer tells

    @property
    def segments(self) -> SegmentList:
        """All segments (SegmentBook)."""
        return self._known.segments

    def segment_started(self, segment: SegmentWriter) -> None:
        """Take a segment that our writer started into the list (SegmentBook)."""
        self._segment_writers[segment.metadata.lssn] = segment
        self._known.put(segment.metadata)

    def segment_marked(self, metadata: SegmentMetadata) -> None:
        """Take over what a segment in progress says now (SegmentBook)."""
        self._known.put(metadata)

    def segment_completed(self, metadata: SegmentMetadata) -> None:
        """Take a segment that our writer completed into the list (SegmentBook)."""
        self._segment_writers.pop(metadata.lssn, None)
        self._known.put(metadata)
        self._home.upkeep_if_wanted()

    def writer_of(self, lssn: int) -> SegmentWriter | None:
        """Return who in this process writes a segment (WriterLookup)."""
        return self._segment_writers.get(lssn)

    async def on_writer_gone(self, writer: LogWriter) -> None:
        """Give up the ownership (WriterHome)."""
        if self.writer is not writer:
            return
        self.writer = None
        self._known.let_go()
        self._context.metrics.writers -= 1
        self._segment_writers.clear()
        self._home.forget_views()
        self.on_tail_moved()
        ownership, self._ownership = self._ownership, None
        if ownership is not None:
            await ownership.release()
