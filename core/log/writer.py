"""Appending to a log: what waits is packed into entries, entries into segments, segments roll.

Invariant: records reach the log in the order of `append`, and are reported confirmed in that order;
after the first failure nothing more is taken, so the caller's sequence never has a hole. A record
is in exactly one of: waiting here, in flight in a segment, confirmed.

    append -> waiting -> (transmit policy) -> SegmentWriter -> ledger -> on_confirmed -> listener

The first segment is started by the first record: an owner that writes nothing leaves nothing.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Sequence
from typing import Protocol

from core.errors import (
    CoreError,
    LogRecordTooLong,
    OverCapacity,
    TransactionIdOutOfOrder,
    Unavailable,
)
from core.log.config import ENTRY_RECORDS_BYTES_MAX, TransmitMode
from core.log.context import LogContext
from core.log.owner import LogListener
from core.log.rolling import RollingPolicy
from core.log.segment_chain import SegmentChain
from core.log.segment_writer import SegmentWriter
from protocol.distributedlog.record import (
    END_OF_STREAM_TXID,
    HEADER_SIZE,
    INVALID_TXID,
    RecordParts,
)
from protocol.ids import Buffer, TxId

logger = logging.getLogger(__name__)


class WriterHome(Protocol):
    """The log that a writer belongs to, as the writer sees it."""

    def on_tail_moved(self) -> None:
        """Wake up whoever waits for records: some were confirmed."""

    async def on_writer_gone(self, writer: "LogWriter") -> None:
        """Give up the ownership: the writer has let go of everything. Idempotent."""


class LogWriter:
    """The only writer of a log; made by `Log.open_writer`. All calls come from the loop."""

    def __init__(
        self,
        home: WriterHome,
        chain: SegmentChain,
        listener: LogListener,
        context: LogContext,
        *,
        last_txid: TxId,
    ) -> None:
        self.last_txid = last_txid
        """Txid of the last appended record, at first of the log's last; -999 in an empty log."""
        self.confirmed_txid = last_txid
        """Txid of the last confirmed record."""
        config = context.config
        self.rolling = RollingPolicy(config.segment_bytes, config.segment_minutes * 60_000)
        """May be replaced at any time; holds from the next entry on."""
        self._home = home
        self._chain = chain
        self._listener = listener
        self._config = config
        self._clock = context.clock
        self._metrics = context.metrics
        self._loop = asyncio.get_running_loop()
        self._is_immediate = config.transmit_policy in (None, TransmitMode.IMMEDIATE)
        self._waiting: deque[RecordParts] = deque()
        self._waiting_bytes = 0
        self._is_blocked = False
        """Records wait for room or for a new segment, not for the policy."""
        self._error: CoreError | None = None
        self._is_closing = False
        self._transmit_handle: asyncio.Handle | None = None
        self._control_handle: asyncio.TimerHandle | None = None
        self._quiet_since = 0.0
        self._appended = self._confirmed = 0
        self._flushing: deque[tuple[int, asyncio.Future[None]]] = deque()
        chain.bind(self)

    @property
    def lssn(self) -> int:
        """Log segment sequence number of the current segment, or of the one to be started."""
        return self._chain.lssn

    @property
    def waiting_bytes(self) -> int:
        """Bytes of records that were appended and not yet sent."""
        return self._waiting_bytes

    @property
    def error(self) -> CoreError | None:
        """Why nothing can be appended any more."""
        return self._error

    def append(self, txid: TxId, payload: Sequence[Buffer], length: int) -> None:
        """Take a record of `length` bytes in parts; the listener hears when it is confirmed.

        The parts must not change until then. Errors: TransactionIdOutOfOrder, LogRecordTooLong,
        OverCapacity: nothing was taken, the writer lives. Any other CoreError: it is dead.
        """
        if self._error is not None or self._is_closing:
            raise self._refusal()
        if not self.last_txid <= txid < END_OF_STREAM_TXID or txid < 0:
            raise TransactionIdOutOfOrder(f"txid {txid} after {self.last_txid}")
        if length > self._config.record_bytes_max:
            raise LogRecordTooLong(f"{length} bytes, {self._config.record_bytes_max} fit")
        waiting_bytes = self._waiting_bytes + length
        if waiting_bytes > self._config.waiting_bytes_max:
            self._metrics.refused_appends_total += 1
            raise OverCapacity(f"{self._waiting_bytes} bytes wait for the bookies already")
        self._waiting_bytes = waiting_bytes
        self._waiting.append(RecordParts(txid, payload, length))
        self._appended += 1
        self.last_txid = txid
        if self._transmit_handle is None or not self._is_immediate:
            self._plan_transmission()

    def _refusal(self) -> CoreError:
        if self._error is not None:
            return self._error.with_traceback(None)
        return Unavailable("the log writer is closed")

    async def flush(self) -> None:
        """Send what waits, whatever the policy, and wait until all of it is confirmed.

        Errors: the writer's failure. Cancel: only the waiting ends.
        """
        if self._error is not None:
            raise self._error.with_traceback(None)
        self._transmit()
        if self._confirmed < self._appended:
            confirmed = self._loop.create_future()
            self._flushing.append((self._appended, confirmed))
            await confirmed

    async def roll(self) -> None:
        """Go on in a new segment and complete this one; nothing to do when it has no record.

        Errors: the writer's failure.
        """
        await self._chain.settled()
        segment = self._chain.current
        if self._error is None and segment is not None and segment.records:
            self._chain.advance(segment.last_txid)
            await self._chain.settled()
        if self._error is not None:
            raise self._error.with_traceback(None)

    async def close(self) -> None:
        """Confirm everything, complete the segment, give the log up. Idempotent.

        Errors: CoreError when that fails; the log is given up then too, recovery does the rest.
        """
        try:
            if self._error is None and not self._is_closing:
                await self._finish()
        finally:
            await self._let_go(Unavailable("the log writer is closed"))

    async def abort(self) -> None:
        """Give the log up as it is, without a word to the listener: recovery does the rest."""
        await self._let_go(Unavailable("the log writer was aborted"))

    async def _finish(self) -> None:
        self._is_closing = True
        try:
            await self.flush()
            await self._chain.finish()
        except CoreError as error:
            self._fail(error)
            raise
        if self._error is not None:
            raise self._error.with_traceback(None)

    async def _let_go(self, reason: CoreError) -> None:
        self._stop(reason)
        await self._chain.stop()
        await self._home.on_writer_gone(self)

    # ------------------------------------------------------------------ sending

    def _plan_transmission(self) -> None:
        """Immediate: after this turn. Periodic: in a while. Buffered: now when enough waits."""
        if self._is_immediate:
            self._transmit_handle = self._loop.call_soon(self._transmit)
            return
        config = self._config
        is_full = (
            config.transmit_policy is TransmitMode.BUFFERED
            and self._waiting_bytes >= config.transmit_buffer_bytes
        )
        if is_full:
            self._transmit()
        elif self._transmit_handle is None:
            delay = config.transmit_interval_ms / 1000
            self._transmit_handle = self._loop.call_later(delay, self._transmit)

    def _transmit(self) -> None:
        if self._transmit_handle is not None:
            self._transmit_handle.cancel()
            self._transmit_handle = None
        if self._error is not None:
            return
        chain = self._chain
        segment = chain.writable
        if segment is None:
            self._is_blocked = True
            if chain.current is None and self._waiting and chain.roll.may_begin(0):
                self._start_first_segment()
            return
        waiting = self._waiting
        try:
            while waiting and segment.has_room:
                self._send_entry(segment)
        except CoreError as error:
            self._fail(error)
            return
        self._is_blocked = bool(waiting)
        self._roll_if_due(segment)

    def _send_entry(self, segment: SegmentWriter) -> None:
        """Send as many waiting records as fit into one entry, at least one."""
        waiting = self._waiting
        record = waiting.popleft()
        length = record.length
        size = HEADER_SIZE + length
        records = [record]
        while waiting and size + HEADER_SIZE + waiting[0].length <= ENTRY_RECORDS_BYTES_MAX:
            record = waiting.popleft()
            records.append(record)
            length += record.length
            size += HEADER_SIZE + record.length
        self._waiting_bytes -= length
        segment.add_records(records, size)

    def _start_first_segment(self) -> None:
        has_records = self.confirmed_txid != INVALID_TXID
        self._chain.advance(self.confirmed_txid if has_records else self._waiting[0].txid)

    def _roll_if_due(self, segment: SegmentWriter) -> None:
        if self.rolling.segment_bytes or self.rolling.segment_ms:
            now_ms = self._clock.now_ms()
            is_due = self.rolling.is_due(segment.size_bytes, now_ms - segment.started_ms)
            if is_due and segment.records and self._chain.roll.may_begin(now_ms):
                self._chain.advance(segment.last_txid)

    def on_switched(self, *, is_first_entry_free: bool) -> None:
        """Go on in the new segment (ChainUser)."""
        segment = self._chain.writable
        if is_first_entry_free and not self._waiting and segment is not None:
            segment.add_control()  # so that the bookies know the ledger
        self._transmit()

    # ------------------------------------------------------------------ confirmation

    def on_segment_confirmed(self, segment: SegmentWriter) -> None:
        """Report what is confirmed and send what waits for room (SegmentListener)."""
        chain = self._chain
        if self._error is not None or segment is not chain.current:
            return  # an old segment's index: all its records were confirmed before the switch
        confirmed = chain.records_before + segment.confirmed_records
        if confirmed > self._confirmed:
            self._confirmed = confirmed
            self.confirmed_txid = segment.confirmed_txid
            self._listener.on_confirmed(segment.confirmed_txid)
            while self._flushing and self._flushing[0][0] <= confirmed:
                _resolve(self._flushing.popleft()[1])
        if self._is_blocked:
            self._transmit()
        if segment.is_confirmed:
            chain.on_all_confirmed()
            if not segment.is_published:
                self._plan_control()
        self._home.on_tail_moved()

    def _plan_control(self) -> None:
        """Everything sent is confirmed, but only we know; tell others unless more records do."""
        self._quiet_since = self._loop.time()
        if self._control_handle is None and self._config.control_flush_ms:
            self._control_handle = self._loop.call_later(
                self._config.control_flush_ms / 1000, self._publish
            )

    def _publish(self) -> None:
        self._control_handle = None
        segment = self._chain.writable
        if segment is None or self._error is not None or self._is_closing:
            return  # a closed ledger's end is for everybody to see
        if not segment.is_confirmed or segment.is_published:
            return  # a later entry carries the news, or did; its confirmation plans anew
        left = self._quiet_since + self._config.control_flush_ms / 1000 - self._loop.time()
        if left > 0.001:
            self._control_handle = self._loop.call_later(left, self._publish)
            return
        try:
            segment.add_control()
        except CoreError as error:
            self._fail(error)

    # ------------------------------------------------------------------ failure

    def fail(self, error: CoreError) -> None:
        """Take no more records, because of something outside: the lock is somebody else's."""
        self._fail(error)

    def on_segment_failed(self, segment: SegmentWriter, error: CoreError) -> None:
        """Fail with the ledger (SegmentListener)."""
        self._fail(error)

    def on_chain_failed(self, error: CoreError) -> None:
        """Fail with the chain: there is no next segment (ChainUser)."""
        self._fail(error)

    def _fail(self, error: CoreError) -> None:
        if self._error is None:
            logger.warning("log_writer_failed lssn=%d error=%r", self.lssn, error)
            self._metrics.failed_writers_total += 1
            self._stop(error)
            self._listener.on_failed(error)

    def _stop(self, reason: CoreError) -> None:
        if self._error is not None:
            return
        self._error = reason
        for handle in (self._transmit_handle, self._control_handle):
            if handle is not None:
                handle.cancel()
        self._transmit_handle = self._control_handle = None
        self._waiting.clear()
        self._waiting_bytes = 0
        self._chain.fail()
        while self._flushing:
            waiter = self._flushing.popleft()[1]
            if not waiter.done():
                waiter.set_exception(reason)


def _resolve(waiter: "asyncio.Future[None]") -> None:
    if not waiter.done():
        waiter.set_result(None)
