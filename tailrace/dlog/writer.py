"""Writing a log: one owner at a time, every answer durable."""

import asyncio
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Final

from tailrace.core.errors import CoreError, OverCapacity
from tailrace.core.log.writer import LogWriter as CoreWriter
from tailrace.core.runtime.tasks import Tasks
from tailrace.protocol.distributedlog.dlsn import DLSN
from tailrace.protocol.ids import Buffer, TxId

_TAKEN_AT_ONCE: Final = 256
"""Records of a bulk that are taken before others of the loop have a turn."""


class WriterLife:
    """Hears how a core writer fares (LogListener), and gives it up when it is dead.

    Each call of the user's is a `with` block of it, so it knows whether a call raised the failure.
    A future does not count: its owner may never read it.
    """

    def __init__(self, tasks: Tasks) -> None:
        self.error: CoreError | None = None
        self.ended = asyncio.Event()
        """Set when the writer is dead, or closed."""
        self.writer: CoreWriter | None = None
        self._tasks = tasks
        self._is_reported = False

    def on_confirmed(self, txid: TxId) -> None:
        """Do nothing: each record has a future."""

    def on_failed(self, error: CoreError) -> None:
        """Give the writer up: this process' readers would wait for it, and not ask the bookies."""
        self.error = error
        self.ended.set()
        if self.writer is not None:
            self._tasks.start(self.writer.abort(), "abort")

    def reported(self) -> CoreError | None:
        """Return the failure; from now on it counts as reported."""
        self._is_reported = self.error is not None
        return self.error

    def raise_unreported(self) -> None:
        """Raise the failure unless it was reported."""
        if self.error is not None and not self._is_reported:
            self._is_reported = True
            raise self.error

    def __enter__(self) -> None:
        """Begin a call."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if isinstance(error, CoreError):
            self.reported()


class LogWriter:
    """The only writer of a log; `Log.open_writer` opens it. Calls may overlap; order is theirs.

    Once it has failed every call raises why, and another writer can be opened. What was
    acknowledged stays, whatever happens. Source: AsyncLogWriter.
    """

    def __init__(
        self, writer: CoreWriter, life: WriterLife, on_closed: Callable[["LogWriter"], None]
    ) -> None:
        self._writer = writer
        self._life = life
        self._on_closed = on_closed
        self._line = asyncio.Lock()
        """Calls that wait for room wait in line: records keep the order of the calls."""

    @property
    def last_txid(self) -> TxId | None:
        """Txid of the last record that is durable, at first that of the log; None: it has none."""
        txid = self._writer.confirmed_txid
        return txid if txid >= 0 else None

    @property
    def failure(self) -> CoreError | None:
        """Why the writer is dead; None while it lives, and after a close in order."""
        return self._life.error

    async def write(self, payload: Buffer, txid: TxId) -> DLSN:
        """Write a record; return its position once it is durable: on disk at the ack quorum.

        Shape: `txid` is 0 or more, and not lower than that of the record before.
        Errors: TransactionIdOutOfOrder, LogRecordTooLong: nothing was written, the writer lives.
        EndOfStream: the log was sealed. WriteCancelled: never sent. Any other (LedgerFenced,
        OwnershipLost, NotEnoughBookies): the writer is dead, see `failure`, and the record is in
        the log or is not: see the next writer's `last_txid`.
        Cancel: only the waiting ends, unless it still waited for room; then nothing was written.
        Cost: one round trip to the bookies and a sync there; writes that overlap share it.
        Source: AsyncLogWriter.write.
        """
        with self._life:
            return await (await self.submit(payload, txid))

    async def submit(self, payload: Buffer, txid: TxId) -> "asyncio.Future[DLSN]":
        """Take a record; return a future of its position, done when it is durable.

        For many records in flight. It waits only while `log.waiting.bytes.max` bytes of records
        wait for the bookies. The future need not be read: `flush` and `close` raise as well.
        Errors: as `write`, at once where nothing was written; else in the future.
        Cancel: nothing was written. Source: AsyncLogWriter.write.
        """
        with self._life:
            return await self._submit(bytes(payload), txid)

    async def write_bulk(self, records: Iterable[tuple[Buffer, TxId]]) -> list[DLSN]:
        """Write records, each a payload and its txid; return their positions once all are durable.

        Errors: as `write`, of the first that is refused; what lies before it is durable then, what
        comes behind was not written. If the writer dies, records up to `last_txid` are durable.
        Cancel: what was taken is written, the others are not.
        Cost: they share entries, up to a MiB each: a few microseconds a record.
        Source: AsyncLogWriter.writeBulk.
        """
        with self._life:
            async with self._line:
                taken, refusal = await self._take_all(records)
            positions = [await position for position in taken]
            if refusal is not None:
                raise refusal
            return positions

    async def flush(self) -> None:
        """Return once every record that was taken is durable.

        Errors: the writer's failure. Cancel: only the waiting ends. Source: LogWriter.flush.
        """
        with self._life:
            await self._wait_for_line()
            await self._writer.flush()

    async def commit(self) -> None:
        """Flush, and return once readers of every process can read all of it.

        Without it they can after the next entry, or `periodicFlushFrequencyMilliSeconds` (100) of
        quiet. Errors, cancel: as `flush`. Cost: one more entry. Source: LogWriter.commit.
        """
        with self._life:
            await self._wait_for_line()
            await self._writer.commit()

    async def mark_end_of_stream(self) -> DLSN:
        """Seal the log for good; return the position of its end. Readers get EndOfStream there.

        Errors: EndOfStream when it was sealed before; the writer's failure: it may
        be sealed, then the next opening raises EndOfStream. Cancel: the log is sealed anyway.
        Source: LogWriter.markEndOfStream.
        """
        with self._life:
            await self._wait_for_line()
            return await self._writer.mark_end_of_stream()

    async def failed(self, timeout_s: float | None = None) -> CoreError | None:
        """Wait until the writer is dead, and return why; None when it is closed, or time is over.

        It dies when another process takes the log over, or when too few bookies answer. An
        idle one learns of the first with its ZooKeeper session, else with its next write.
        Unit: seconds; None: without an end. Errors: none. Cancel: only the waiting ends.
        """
        if timeout_s is None:
            await self._life.ended.wait()
        elif timeout_s > 0:
            try:
                async with asyncio.timeout(timeout_s):
                    await self._life.ended.wait()
            except TimeoutError:
                return None
        return self._life.reported()

    async def close(self) -> None:
        """Make what was taken durable, complete the segment, give the log up. Idempotent.

        Errors: CoreError when that fails. And the failure of before, unless a call raised it or
        `failed` returned it (a future of `submit` does not count): no loss of a record is silent.
        The log is given up then too, and recovery does the rest.
        Cancel: as `abort`. Source: AsyncCloseable.asyncClose.
        """
        try:
            await self._wait_for_line()
        except asyncio.CancelledError:
            await self.abort()
            raise
        try:
            with self._life:
                await self._writer.close()
        finally:
            self._has_ended()
        self._life.raise_unreported()

    async def abort(self) -> None:
        """Give the log up as it is, as a crash would: recovery completes it. Idempotent.

        Records that were not acknowledged may be in the log or not. Errors: none of the log's.
        Source: AsyncAbortable.asyncAbort.
        """
        try:
            await self._writer.abort()
        finally:
            self._has_ended()

    def _has_ended(self) -> None:
        self._life.ended.set()
        self._on_closed(self)

    async def _submit(self, record: bytes, txid: TxId) -> "asyncio.Future[DLSN]":
        async with self._line:
            return await self._take(record, txid)

    async def _write_unreported(self, record: bytes, txid: TxId) -> DLSN:
        """Write a record for a future: its failure does not count as reported."""
        return await (await self._submit(record, txid))

    async def _wait_for_line(self) -> None:
        """Return when the calls that waited for room before this one are through."""
        async with self._line:
            pass

    async def _take_all(
        self, records: Iterable[tuple[Buffer, TxId]]
    ) -> tuple[list["asyncio.Future[DLSN]"], CoreError | None]:
        """Take records up to the first that is refused; return their positions to come, and why."""
        taken: list[asyncio.Future[DLSN]] = []
        try:
            for payload, txid in records:
                taken.append(await self._take(bytes(payload), txid))
                if len(taken) % _TAKEN_AT_ONCE == 0:
                    await asyncio.sleep(0)
        except CoreError as error:
            return taken, error
        return taken, None

    async def _take(self, record: bytes, txid: TxId) -> "asyncio.Future[DLSN]":
        while True:
            try:
                return self._writer.write(txid, record)
            except OverCapacity:
                await self._writer.room(len(record))
