"""One log of a namespace: the doors for writing and reading it, what it has, what it gives up."""

from collections.abc import Awaitable, Callable
from typing import Final

from tailrace.core.errors import LedgerNotFound, Unavailable
from tailrace.core.log.entries import LogRecordWithDLSN, visible_records
from tailrace.core.log.last_record import count_all, count_from
from tailrace.core.log.log import Log as CoreLog
from tailrace.core.log.segment_view import SegmentView
from tailrace.core.log.sequence_ids import sequence_id
from tailrace.core.log.subscribers import Subscribers
from tailrace.core.runtime.tasks import Tasks
from tailrace.dlog.closing import close_all
from tailrace.dlog.opening import Opening
from tailrace.dlog.reader import LogReader
from tailrace.dlog.records import START, Edge, LogRecord
from tailrace.dlog.writer import LogWriter, WriterLife
from tailrace.protocol.distributedlog.dlsn import DLSN, NON_INCLUSIVE_LOWER_BOUND
from tailrace.protocol.distributedlog.record import END_OF_STREAM_TXID
from tailrace.protocol.ids import TxId

_BEFORE_ALL: Final = DLSN(-(2**31), 0, 0)
"""Below the numbers of all segments, also of those that got theirs by their place."""
_FIRST_SCAN: Final = 2
_SCAN_MAX: Final = 16


class Log:
    """One log; `Namespace.open_log` opens it. Any process reads it, one writes it.

    Several may be open of one log; each closes its own writers and readers.
    Source: DistributedLogManager.
    """

    def __init__(
        self,
        core: CoreLog,
        subscribers: Subscribers,
        tasks: Tasks,
        forget: Callable[["Log"], Awaitable[None]],
    ) -> None:
        self._core = core
        self._subscribers = subscribers
        self._tasks = tasks
        self._forget = forget
        self._writers: set[LogWriter] = set()
        self._readers: set[LogReader] = set()
        self._is_closed = False

    @property
    def name(self) -> str:
        """Its name in the namespace."""
        return self._core.name

    # ------------------------------------------------------------------ writing and reading

    def open_writer(self) -> Opening[LogWriter]:
        """Own the log: claim it, fence its former writer, recover what that writer left.

        While another process owns it, wait up to `lockTimeoutSeconds` (30) for it to let go; a
        process that died lets go when its ZooKeeper session ends.
        Errors: OwnershipLost, when this process writes the log already; its kind
        OwnershipAcquireFailed names the owner; EndOfStream: the log is sealed; LogNotFound;
        BookieUnavailable, NotEnoughBookies, MetadataConflict: try again; CorruptData.
        Cancel: the log is given up. Cost: ten round trips; nothing is stored before the first
        record. Source: DistributedLogManager.openAsyncLogWriter.
        """
        return Opening(self._open_writer())

    def open_reader(self, start: DLSN | TxId | Edge = START) -> Opening[LogReader]:
        """Open a reader of the records at and behind a position.

        `start`: a DLSN; a txid: the first record that has it or a higher one, even if none has yet;
        START: the oldest record; TAIL: behind what can be read now. What was truncated is left out.
        Errors: LogNotFound; for a txid and TAIL BookieUnavailable, CorruptData, LedgerNotFound too.
        Cancel: nothing is open. Cost: one read of the metadata; a txid is searched in a few reads.
        Source: DistributedLogManager.openAsyncLogReader.
        """
        return Opening(self._open_reader(start))

    # ------------------------------------------------------------------ what it has

    async def last_record(self) -> LogRecord | None:
        """Return the last record that can be read now; None when there is none.

        Its `dlsn` and `txid` are the log's last ones. One that was truncated counts until it is
        purged. Errors: LogNotFound, BookieUnavailable, CorruptData, LedgerNotFound.
        Cost: the end of one segment is read. Source: DistributedLogManager.getLastLogRecord.
        """
        found = await self._last()
        if found is None:
            return None
        number = sequence_id(self._core.segments, found)
        dlsn, record = found
        known = number if number >= 0 else None
        return LogRecord(dlsn, record.txid, known, bytes(record.payload))

    async def record_count(self, start: DLSN | None = None) -> int:
        """Return how many records there are, or are at and behind `start`.

        What was truncated and is not purged counts. Errors, cost: as `last_record`.
        Source: DistributedLogManager.getLogRecordCount.
        """
        self._check_open()
        return await (count_all(self._core) if start is None else count_from(self._core, start))

    async def find(self, txid: TxId) -> DLSN | None:
        """Return the position of the first record with that txid or a higher one; None: none has.

        Errors: as `last_record`. Cost: a search, a few reads.
        Source: DistributedLogManager.getDLSNNotLessThanTxId.
        """
        self._check_open()
        return await self._core.locate(txid)

    async def is_sealed(self) -> bool:
        """Tell whether its end was marked, and its writer closed since. Errors: LogNotFound."""
        self._check_open()
        await self._core.refresh()
        return self._core.segments.last_txid == END_OF_STREAM_TXID

    # ------------------------------------------------------------------ what it gives up

    async def truncate(self, before: DLSN) -> None:
        """Give up every durable record before a position: readers that open from now on skip it.

        Idempotent; it never goes back. What is behind the last durable record is kept. The bytes go
        with `purge`, or with `logSegmentRetentionHours`.
        Errors: OwnershipLost: another process writes a segment that begins before the position, and
        only the completed ones were truncated; MetadataConflict, Unavailable: do it again.
        Cost: one metadata commit, two where this process writes the log.
        Source: AsyncLogWriter.truncate.
        """
        self._check_open()
        await self._core.truncate(before)

    async def purge(self, before: DLSN) -> int:
        """Delete the completed segments that lie wholly before a position; return how many.

        The last completed one stays, since the next one's numbers follow from it. Readers inside
        may go on for `log.segment.delete.delay.ms` (60,000); the next purge, or round of retention,
        after that deletes the bytes. Errors: as `truncate`. Cost: a metadata commit.
        Source: DistributedLogManager.purgeLogsOlderThan, which takes a txid.
        """
        self._check_open()
        return len(await self._core.purge_segments(before.lssn))

    # ------------------------------------------------------------------ how far its readers came

    async def last_commit_position(self, subscriber: str) -> DLSN | None:
        """Return the position that a subscriber committed last; None: it never did.

        Errors: ValueError for what cannot be an id; CorruptData; Unavailable.
        Source: SubscriptionsStore.getLastCommitPosition.
        """
        self._check_open()
        found = await self._subscribers.last_commit(subscriber)
        return None if found == NON_INCLUSIVE_LOWER_BOUND else found

    async def advance_commit_position(self, subscriber: str, position: DLSN) -> DLSN:
        """Remember the position of the next record that a subscriber wants; return what is kept.

        It never goes back. Nobody is kept from truncating what a subscriber has not read.
        Errors: as `last_commit_position`; BadVersion when others keep moving it. Cost: one commit.
        Source: SubscriptionsStore.advanceCommitPosition.
        """
        self._check_open()
        return await self._subscribers.advance(subscriber, position)

    async def delete_subscriber(self, subscriber: str) -> bool:
        """Forget a subscriber; False when there is none. Errors: as `last_commit_position`.

        Source: SubscriptionsStore.deleteSubscriber.
        """
        self._check_open()
        return await self._subscribers.delete(subscriber)

    async def close(self) -> None:
        """Close the writers and readers that it opened. Idempotent.

        Errors: as `LogWriter.close`; everything is closed then too. Cancel: the writer aborts.
        Source: DistributedLogManager.asyncClose.
        """
        self._is_closed = True
        try:
            await close_all([*self._readers, *self._writers])
        finally:
            await self._forget(self)

    # ------------------------------------------------------------------ inside

    async def _open_writer(self) -> LogWriter:
        self._check_open()
        life = WriterLife(self._tasks)
        core = await self._core.open_writer(life)
        life.writer = core
        refusal = life.error or (self._closed() if self._is_closed else None)
        if refusal is not None:
            await core.abort()
            raise refusal
        writer = LogWriter(core, life, self._writers.discard)
        self._writers.add(writer)
        return writer

    async def _open_reader(self, start: DLSN | TxId | Edge) -> LogReader:
        self._check_open()
        position = await self._position(start) if isinstance(start, Edge) else start
        core = await self._core.open_reader(position)
        if self._is_closed:
            await core.close()
            raise self._closed()
        reader = LogReader(core, lambda: self._core.segments, self._readers.discard)
        self._readers.add(reader)
        return reader

    async def _position(self, edge: Edge) -> DLSN:
        last = await self._last() if edge is Edge.TAIL else None
        return _BEFORE_ALL if last is None else last.dlsn.next_slot()

    async def _last(self) -> LogRecordWithDLSN | None:
        """Return the last record. Errors: as `last_record`."""
        self._check_open()
        await self._core.refresh()
        try:
            return await self._last_of_known()
        except LedgerNotFound:  # recovery deletes a segment that nothing was written to
            await self._core.refresh(is_forced=True)
            return await self._last_of_known()

    async def _last_of_known(self) -> LogRecordWithDLSN | None:
        for segment in reversed(self._core.segments.segments):
            if segment.in_progress or segment.record_count:
                found = await _last_in(await self._core.view(segment.lssn))
                if found is not None:
                    return found
        return None

    def _check_open(self) -> None:
        if self._is_closed:
            raise self._closed()

    def _closed(self) -> Unavailable:
        return Unavailable(f"log {self.name} is closed here")


async def _last_in(view: SegmentView) -> LogRecordWithDLSN | None:
    """Return the last record of a segment. Errors: CorruptData; as SegmentView's.

    Cost: 2, 4, 8, 16, 16, ... entries from the end, until one holds a record.
    """
    last = (await view.readable()).last
    count = _FIRST_SCAN
    while last >= 0:
        first = max(last - count + 1, 0)
        for entry in reversed(await view.read(first, last)):
            found = list(visible_records(view.metadata, entry).records())
            if found:
                return found[-1]
        last, count = first - 1, min(count * 2, _SCAN_MAX)
    return None
