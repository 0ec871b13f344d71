"""Appending to a log, as its users see it.

The hot path is `RecordSender`; here is what some want besides: positions of records, bulk writes,
record sets, waiting (flush, commit, room), the end of the stream, and policies that change.

    append            no answer but the listener's: what a broker wants
    write             the record's DLSN, when it is confirmed
    flush   all is on disk at its ack quorum         commit   and readable by every process
    close   and the segment is completed             abort    as a crash would leave it

The first segment is started by the first record: an owner that writes nothing leaves nothing.
Source: reference DistributedLog 5.2, 5.3, 5.6; BKAsyncLogWriter, BKLogSegmentWriter.
"""

import asyncio
from collections.abc import Sequence
from typing import Protocol

from tailrace.core.errors import (
    CoreError,
    EndOfStream,
    LogRecordTooLong,
    Unavailable,
    WriteCancelled,
)
from tailrace.core.log.config import CompressionType
from tailrace.core.log.context import LogContext
from tailrace.core.log.log_tail import TailWatcher
from tailrace.core.log.owner import LogListener
from tailrace.core.log.receipts import BulkReceipt, Receipts, refuse
from tailrace.core.log.record_sender import RecordSender
from tailrace.core.log.segment_chain import SegmentChain
from tailrace.core.log.transmit import ControlPolicy, TransmitPolicy
from tailrace.core.log.write_limits import WriteLimits
from tailrace.protocol.distributedlog.dlsn import DLSN
from tailrace.protocol.distributedlog.lz4_block import UNPACKED_BYTES_MAX
from tailrace.protocol.distributedlog.record import CONTROL_PAYLOAD, RecordParts
from tailrace.protocol.distributedlog.record_set import pack_record_set
from tailrace.protocol.ids import Buffer, TxId

_LENGTH_BYTES = 4


class WriterHome(TailWatcher, Protocol):
    """The log that a writer belongs to, as the writer sees it."""

    async def on_writer_gone(self, writer: "LogWriter") -> None:
        """Give up the ownership: the writer has let go of everything. Idempotent."""


class LogWriter(RecordSender):
    """The only writer of a log; made by `Log.open_writer`. All calls come from the loop."""

    __slots__ = ("_closed", "_home", "_shared", "number")

    def __init__(
        self,
        home: WriterHome,
        chain: SegmentChain,
        listener: LogListener,
        context: LogContext,
        *,
        last_txid: TxId,
        number: int,
    ) -> None:
        super().__init__(home, chain, listener, context, last_txid=last_txid)
        self.number = number
        """Higher than that of any owner of the log before, whether that wrote anything or not."""
        self._home = home
        self._closed: asyncio.Future[None] | None = None
        self._shared = context.limits.writes
        config = context.config
        self.set_outstanding_limit(
            config.outstanding_writes_max, is_dark=config.outstanding_writes_dark
        )

    # ------------------------------------------------------------------ records

    def write(self, txid: TxId, payload: Buffer, values: int = 0) -> "asyncio.Future[DLSN]":
        """Append a record and return a future of its position, done when it is confirmed.

        Order is the order of the calls. Errors: as `append`, at once; of the future: the writer's
        failure, and WriteCancelled if the record was never sent. Cancel: the record stays.
        """
        receipts = self._take_receipts()
        position = receipts.position_of(self._appended + 1)
        try:
            self.append(txid, (payload,), len(payload), values)
        except CoreError:
            receipts.withdraw(position)
            raise
        return position

    def append_set(
        self,
        txid: TxId,
        values: Sequence[Buffer],
        compression: CompressionType = CompressionType.NONE,
    ) -> "asyncio.Future[DLSN]":
        """Append a record set: values that share a txid; return the position of the first.

        Each value has a slot and a position of its own, in order. Errors: as `write`;
        LogRecordTooLong for more than readers would unpack; ValueError for no values.
        Cost: one copy of the values.
        """
        if not values:
            raise ValueError("a record set without a value")
        size = sum(map(len, values)) + _LENGTH_BYTES * len(values)
        if size > UNPACKED_BYTES_MAX:
            raise LogRecordTooLong(f"a record set of {size} bytes, {UNPACKED_BYTES_MAX} fit")
        return self.write(txid, pack_record_set(values, compression.codec), len(values))

    def append_many(self, records: Sequence[RecordParts]) -> "list[asyncio.Future[DLSN]]":
        """Append records (`record_parts` makes them) in order; return each one's position to come.

        The first that is refused has its error in its future, all behind it WriteCancelled: they
        were not taken. The transmit policy is asked once, at the end. Errors: none.
        """
        receipts = self._take_receipts()
        futures: list[asyncio.Future[DLSN]] = []
        error: CoreError | None = None
        self._is_bulk = True
        try:
            for record in records:
                if error is None:
                    future = receipts.position_of(self._appended + 1)
                    try:
                        self.append(*record)
                    except CoreError as refused:
                        receipts.withdraw(future)
                        refuse(future, refused)
                        error = WriteCancelled(f"a record before it was refused: {refused}")
                else:
                    future = self._loop.create_future()
                    refuse(future, error)
                futures.append(future)
        finally:
            self._is_bulk = False
            self._ask_policy()
        return futures

    def append_bulk(self, txid: TxId, payloads: Sequence[Buffer]) -> BulkReceipt:
        """Append records of one txid in order; return one receipt for all.

        The first that is refused, and all behind it, are not taken. The transmit policy is asked
        once, at the end. Errors: none. Cost: one future, however many records there are.
        """
        refusal: CoreError | None = None
        before = self._appended
        if not self._append_fitting(txid, payloads):
            refusal = self._append_each(txid, payloads)
        taken = self._appended - before
        receipt = BulkReceipt(len(payloads), taken, refusal)
        self._take_receipts().add_bulk(self._appended, receipt)
        self._ask_policy()
        return receipt

    def _append_each(self, txid: TxId, payloads: Sequence[Buffer]) -> CoreError | None:
        """Append records until one is refused; return why it is. Nothing is sent yet."""
        self._is_bulk = True
        try:
            for payload in payloads:
                self.append(txid, (payload,), len(payload))
        except CoreError as error:
            return error
        finally:
            self._is_bulk = False
        return None

    def check_length(self, length: int) -> None:
        """Refuse a record of this size, as `append` would. Errors: as `append` for its size."""
        if length > self._sizes.fits_anywhere:
            self._check_large(length)

    async def mark_end_of_stream(self) -> DLSN:
        """Seal the log for good; return the position of its end once that is confirmed.

        From the call on appends raise EndOfStream; once the log is closed or recovered, so does
        opening it for writing. Errors: EndOfStream when it was sealed before; the writer's failure:
        then recovery finds whether it is sealed. Cancel: the log is sealed anyway.
        """
        if self._refusal is not None:
            raise self._refusal.with_traceback(None)
        self._refusal = EndOfStream("the log was sealed")
        self._end = self._loop.create_future()
        self._transmit()
        await asyncio.wait([self._end])
        return self._end.result()

    # ------------------------------------------------------------------ waiting

    async def flush(self) -> None:
        """Send what waits, whatever the policy, and wait until all of it is confirmed.

        Errors: the writer's failure. Cancel: only the waiting ends.
        """
        self._raise_error()
        self._transmit()
        self._raise_error()
        if self._confirmed < self._appended:
            await self._take_receipts().confirmed(self._appended)

    async def commit(self) -> None:
        """Flush, and wait until other processes can read all of it.

        Cost: a control record, unless an entry has told of the last record already.
        Errors, cancel: as `flush`.
        """
        await self.flush()
        await self._chain.settled()  # a segment that is left is completed, for everybody to see
        self._raise_error()
        segment = self._chain.writable
        if segment is None or self._is_closing:
            return
        if not segment.is_published:
            self._control.send(CONTROL_PAYLOAD)
            self._raise_error()
        last = DLSN(segment.metadata.lssn, segment.last_sent, 0)
        if segment.lac < last.entry_id:
            await self._take_receipts().reached(last)

    async def keep_alive(self, txid: TxId) -> None:
        """Write a control record and wait until it is confirmed: readers see that an owner lives.

        The first segment is begun by it if no record did so; `txid` is that segment's first one
        where the log has no record. Errors: the writer's failure; Unavailable once it closes;
        EndOfStream; with `on_refused` NotEnoughBookies, and the writer lives.
        Cancel: only the waiting ends.
        Cost: an entry; for the first segment a ledger and a commit.
        """
        await self._chain.settled()
        if self._refusal is not None:
            raise self._refusal.with_traceback(None)
        if self._chain.current is None:
            if self._chain.refusal is None:
                first_txid = self.confirmed_txid if self.confirmed_txid >= 0 else txid
                self._chain.advance(first_txid)  # its first entry: a control record or what waits
                await self._chain.settled()
            if self._chain.refusal is not None:
                raise self._chain.refusal.with_traceback(None)
        else:
            self._control.send(CONTROL_PAYLOAD)
        self._raise_error()
        segment = self._chain.writable
        if segment is not None and not segment.is_confirmed:
            last = DLSN(segment.metadata.lssn, segment.last_sent, 0)
            await self._take_receipts().reached(last)

    async def room(self, length: int = 0) -> None:
        """Wait until a record of `length` bytes would be taken: the way not to meet OverCapacity.

        Another task may take the room first. Errors: those of `append` that no waiting mends.
        Cancel: only the waiting ends.
        """
        if length > self._sizes.bytes_max:
            raise LogRecordTooLong(f"{length} bytes, {self._sizes.bytes_max} fit")
        while self._refusal is None and not self._has_room(length):
            self._transmit()
            waiter = self._take_receipts().any_room()
            if self._limits is not None:
                self._limits.wait(waiter)
            await asyncio.wait([waiter])
        if self._refusal is not None:
            raise self._refusal.with_traceback(None)

    async def roll(self) -> None:
        """Go on in a new segment and complete this one; nothing to do when it has no record.

        Errors: the writer's failure; Unavailable once it closes; EndOfStream.
        """
        await self._chain.settled()
        if self._refusal is not None:
            raise self._refusal.with_traceback(None)
        segment = self._chain.current
        if segment is not None and segment.records:
            self._chain.advance(segment.last_txid)
            await self._chain.settled()
        self._raise_error()

    async def truncate(self, before: DLSN) -> None:
        """Give up what lies before a position in the segment that is written, and is confirmed.

        For `Log.truncate`. Errors: the writer's failure; OwnershipLost; Unavailable: it may have
        happened, so do it again.
        """
        self._raise_error()
        await self._chain.truncate(before)

    async def close(self) -> None:
        """Confirm everything, complete the segment, give the log up. Idempotent.

        Errors: CoreError when that fails; the log is given up then too, recovery does the rest.
        Who closes it meanwhile waits for the first, and hears of no error. Cancel: as `abort`.
        """
        reason = Unavailable("the log writer is closed")
        if self._closed is not None:
            await asyncio.wait([self._closed])
            await self._let_go(reason)
            return
        self._closed = self._loop.create_future()
        try:
            if self._error is None:
                await self._finish()
        finally:
            try:
                await self._let_go(reason)
            finally:
                self._closed.set_result(None)

    async def abort(self) -> None:
        """Give the log up as it is, without a word to the listener: recovery does the rest."""
        await self._let_go(Unavailable("the log writer was aborted"))

    # ------------------------------------------------------------------ policies

    def take_records(self, bytes_max: int) -> None:
        """Take records of this size from now on; a segment without room for them is ended."""
        self._sizes.take(bytes_max)
        self._begin_larger_segment()

    def set_policy(self, policy: TransmitPolicy) -> None:
        """Send by this policy from now on, also what waits."""
        self._policy = policy
        if self._transmit_handle is not None:
            self._transmit_handle.cancel()
            self._transmit_handle = None
        self._ask_policy()

    def set_control_policy(self, policy: ControlPolicy) -> None:
        """Write control records by this policy from now on."""
        if self._error is None and not self._is_closing:
            self._control.set_policy(policy)

    def set_outstanding_limit(self, limit: int, *, is_dark: bool = False) -> None:
        """Take at most so many records that are not confirmed; -1: as many as there is room for.

        `is_dark`: only count what is above, and above the limit of all logs, refuse nothing.
        Errors: ValueError for 0, with which nothing could ever be appended.
        """
        if limit == 0:
            raise ValueError("a limit of outstanding writes must be -1 or above 0")
        if self._limits is not None:
            self._limits.close()
            self._limits = None
        if self._error is None and (limit >= 0 or self._shared.limit >= 0):
            self._limits = WriteLimits(
                limit, self._shared, is_dark=is_dark, on_exceeded=self._on_write_limit
            )
            self._limits.add(self._appended - self._confirmed)

    # ------------------------------------------------------------------ inside

    def _take_receipts(self) -> Receipts:
        if self._receipts is None:
            self._receipts = Receipts()
        return self._receipts

    def _raise_error(self) -> None:
        if self._error is not None:
            raise self._error.with_traceback(None)

    def _on_write_limit(self) -> None:
        self._metrics.write_limit_exceeded_total += 1

    def _ask_policy(self) -> None:
        if self._waiting.records and self._error is None and self._transmit_handle is None:
            self._plan_transmission()

    def _has_room(self, length: int) -> bool:
        if self._limits is not None and not self._limits.has_room:
            return False
        waiting_bytes = self.waiting_bytes
        return not waiting_bytes or waiting_bytes + length <= self._waiting_bytes_max

    async def _finish(self) -> None:
        self._is_closing = True
        self._control.close()
        self._chain.hurry()
        if self._refusal is None:
            self._refusal = Unavailable("the log writer is closed")
        try:
            await self.flush()
            if self._end is not None:
                await asyncio.wait([self._end])
            await self._chain.finish()
        except CoreError as error:
            self.fail(error)
            raise
        self._raise_error()

    async def _let_go(self, reason: CoreError) -> None:
        self._stop(reason)
        await self._chain.stop()
        await self._home.on_writer_gone(self)
