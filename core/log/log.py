"""One log stream: what of it there is, and the doors for writing and reading.

Invariant: a log has one `Log` in a process (its namespace sees to that), which knows the segments:
from the owner's own steps while this process writes it, else from the metadata and its watch.
"""

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeAlias

from tailrace.core.errors import (
    BadVersion,
    CoreError,
    LedgerNotFound,
    MetadataConflict,
    OwnershipLost,
    Unavailable,
)
from tailrace.core.log.allocation import delete_leftover
from tailrace.core.log.context import LogContext
from tailrace.core.log.known_segments import KnownSegments
from tailrace.core.log.log_reading import LogReading
from tailrace.core.log.log_writing import LogWriting
from tailrace.core.log.owner import LogListener, SegmentState
from tailrace.core.log.owner_records import SegmentIndex
from tailrace.core.log.ownership import Ownership
from tailrace.core.log.read_lock import LockedReader, open_locked_reader, read_lock_path
from tailrace.core.log.reader import LogReader
from tailrace.core.log.reader_settings import READ_ALL, ReadRules
from tailrace.core.log.recovery import (
    read_index,
    read_snapshot,
)
from tailrace.core.log.resume import Place, Resume
from tailrace.core.log.rewrite import RewritePlace, SegmentRewrite
from tailrace.core.log.segment_ledger import SegmentLedger
from tailrace.core.log.segment_nodes import (
    delete_segment_node,
    read_segments,
)
from tailrace.core.log.segment_view import SegmentView
from tailrace.core.log.segment_writer import SegmentWriter
from tailrace.core.log.segments import SegmentList, min_active
from tailrace.core.log.tiered import open_segment
from tailrace.core.log.upkeep import LogUpkeep
from tailrace.core.log.writer import LogWriter
from tailrace.core.metadata.layout import LogPaths
from tailrace.core.metadata.segment_metadata import SegmentMetadata
from tailrace.protocol.distributedlog.dlsn import DLSN
from tailrace.protocol.ids import LedgerId, TxId

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
        self._writing = LogWriting(self, self._known, paths, context)
        self._reading = LogReading(self, self.open_ledger, context)
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
        return self._writing.writer

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
        return await self._writing.open(listener, state)

    def check_lock(self) -> None:
        """Refuse a writer without its lock: another may have the log. Errors: OwnershipLost."""
        self._writing.check_lock()

    def writer_of(self, lssn: int) -> SegmentWriter | None:
        """Return who in this process writes a segment (WriterLookup)."""
        return self._writing.writer_of(lssn)

    # ------------------------------------------------------------------ reading

    async def open_reader(
        self,
        start: DLSN | TxId,
        near: Place | None = None,
        *,
        reads_ahead: bool = True,
        rules: ReadRules = READ_ALL,
    ) -> LogReader:
        """Return a reader of the records with DLSN >= `start`, or with txid >= `start`.

        Close it after use. A position in a part that was truncated counts as the first one that is
        kept; a txid above all is waited for. `near`: a place at or before the txid's record, not
        far from it, from a caller's own index or `find`; nothing is searched then, unless the
        segment was rewritten since. A DLSN counts in the ledger that its segment has at the first
        read. `reads_ahead`: False for one who takes a little and closes it again, or calls
        `LogReader.ask_ahead` himself. `rules`: what it leaves out, and where it ends.
        Errors: LogNotFound; for a txid as `find`.
        """
        return await self._reading.open_reader(start, near, reads_ahead=reads_ahead, rules=rules)

    async def reopen_reader(self, behind: Place, given: Resume) -> LogReader:
        """Return a reader that goes on where another one ended, as that one would have.

        `behind`: where the next record is, in the ledger that was read (at the beginning of a
        segment in any); `given`: the records up to there. What was truncated since is read, until
        it is purged; if the segment has another ledger by now the record is searched by txid.
        Errors: LogNotFound; the reader's own when it reads: LogTruncated if the segment was purged,
        even if nothing followed in it.
        """
        return await self._reading.reopen_reader(behind, given)

    def first_readable(self, start: DLSN) -> DLSN:
        """Return where a reader begins that asks for `start`, by the segments that are known.

        Errors: AlreadyTruncatedTransaction.
        """
        return self._reading.first_readable(start)

    async def end(self) -> Place:
        """Return the position behind everything that is confirmed now.

        Errors: LogNotFound; BookieUnavailable. Cost: a request to a quorum of bookies if another
        process writes the log.
        """
        return await self._reading.end()

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

        It is exact unless entries right before that record, or its own, cannot be read from any
        copy, tried twice, and may hold an earlier one, as positions do not exclude it: then it is
        the beginning of the first of these. So it is never behind the record.
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

        Errors: LogTruncated; BookieUnavailable, CorruptData, EntryNotFound. Cost: one read.
        """
        found = await self._read_end(lssn)
        return None if found is None else found.segment_index

    async def read_end_snapshot(self, lssn: int) -> bytes | None:
        """Return what `SegmentState.snapshot` said then. Errors, cost: as `read_index`."""
        found = await self._read_end(lssn)
        return None if found is None else found.end_snapshot

    async def _read_end(self, lssn: int) -> SegmentIndex | None:
        async def read() -> SegmentIndex | None:
            view = await self.view(lssn)
            if not view.ledger.is_closed:
                return None
            return await read_index(view.metadata, view.ledger)

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

    async def open_ledger(self, segment: SegmentMetadata) -> SegmentLedger:
        """Open what a segment lies in (WritingHome). Errors: LedgerNotFound, BookieUnavailable."""
        return await open_segment(segment, self._paths, self._context)

    def forget_views(self) -> None:
        """Open every segment anew before it is read (WritingHome)."""
        self._reading.views.clear()

    # ------------------------------------------------------------------ the list of segments

    @property
    def is_owned_here(self) -> bool:
        """Whether this process writes the log (ReadingHome)."""
        return self._writing.writer is not None

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

    def upkeep_if_wanted(self) -> None:
        """Look after what the log's own settings say of its length (WritingHome)."""
        if self._config.cold_storage or self._config.retention_hours:
            self.upkeep.ask()

    async def truncate(self, dlsn: DLSN) -> None:
        """Give up every record before `dlsn` that is confirmed. Idempotent.

        In a segment that is still written its writer alone can, so this process must have it.
        Errors: OwnershipLost: another process writes a segment that begins before `dlsn`, or is to
        recover it; the completed ones were truncated. As the trimmer's, and `LogWriter.truncate`'s.
        """
        self._writing.check_lock()
        await self.upkeep.trimmer.truncate(dlsn)
        writer = self.writer
        if writer is not None:
            await writer.truncate(dlsn)
            await self.upkeep.trimmer.truncate(dlsn)  # it may have been completed since
        elif any(each.in_progress and dlsn > min_active(each) for each in self.segments):
            raise OwnershipLost(f"{self.name} has a segment that only its writer can truncate")

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
            self._writing.check_lock()
            try:
                if place is not None:
                    await self.upkeep.trimmer.truncate(*place)
            except BadVersion:
                if not left:
                    raise
            else:
                return

    async def purge_segments(self, before_lssn: int) -> list[SegmentMetadata]:
        """End the completed segments below `before_lssn`, but the last one; return them.

        Readers inside may go on for `log.segment.delete.delay.ms`, then they get LogTruncated.
        """
        self._writing.check_lock()
        return await self.upkeep.trimmer.purge(before_lssn)

    async def rewrite(self, lssns: Sequence[int], *, merges: bool = False) -> SegmentRewrite:
        """Begin to write completed segments anew, in this process or another than the owner's.

        `merges`: the oldest of the log into the last one of them. Errors: as `RewritePlace.begin`.
        """
        place = RewritePlace(self, self._paths, self._context, self._writing.check_lock)
        return await place.begin(lssns, merges=merges)

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
        await self._writing.close()
        if self._upkeep is not None:
            await self._upkeep.close()
            self._upkeep = None
        await self._reading.close()

    async def delete(self, check_may: CheckMay | None = None) -> None:
        """Delete the log with all its ledgers; the writer of this process is given up.

        A former owner that goes on, because it was paused or cannot ask the metadata store, is told
        of no further record: its ledger is fenced first, unless too few of its bookies are there.

        `check_may` is called once nobody else can delete it. Errors: what it raises; OwnershipLost:
        another process has it, or this one is opening it; CoreError: what is left can be deleted
        again.
        """
        await self.close()
        async with self._writing.kept_from_all():
            if check_may is not None:
                await check_may()
            await self.upkeep.trimmer.drop_purged_and_cold()
            for segment in await read_segments(self._store, self._paths):
                if segment.in_progress:
                    await self._fence(segment.ledger_id)
                await self._ledgers.delete_ledger(segment.ledger_id)
                await delete_segment_node(self._store, self._paths, segment)
            await delete_leftover(self._store, self._paths.allocation, self._ledgers)
            self._reading.views.clear()
            self._known.clear()

    async def _fence(self, ledger_id: LedgerId) -> None:
        """Fence a ledger that goes: whatever its bookies say, they must not keep it for ever.

        Errors: CoreError of the metadata store. Cost: bookies that do not answer are waited for as
        long as for any request.
        """
        try:
            await self._ledgers.fence_ledger(ledger_id)
        except LedgerNotFound:
            pass  # an earlier deletion came so far
        except (Unavailable, MetadataConflict):
            raise
        except CoreError as error:
            logger.warning(
                "ledger_deleted_unfenced log=%s ledger=%d reason=%s", self.name, ledger_id, error
            )
