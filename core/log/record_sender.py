"""The hot path of a log: what waits is packed into entries, entries go into segments.

Invariant: records reach the log in the order of `append`, and are reported confirmed in that order;
after the first failure nothing more is taken, so the caller's sequence never has a hole. A record
is in exactly one of: waiting here, in flight in a segment, confirmed.

    append -> waiting -> (transmit policy) -> SegmentWriter -> ledger -> on_confirmed -> listener

What only some callers want (positions, limits, the end of the stream) costs the others a branch.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from itertools import repeat

from tailrace.core.errors import (
    CoreError,
    NotEnoughBookies,
    OverCapacity,
    TransactionIdOutOfOrder,
    Unavailable,
)
from tailrace.core.log.context import LogContext
from tailrace.core.log.control_records import ControlRecords
from tailrace.core.log.log_tail import TailWatcher
from tailrace.core.log.owner import LogListener
from tailrace.core.log.receipts import Receipts, refuse
from tailrace.core.log.record_sizes import RecordSizes
from tailrace.core.log.rolling import SEGMENT_RECORDS_MAX, RollingPolicy, RollPhase
from tailrace.core.log.segment_chain import SegmentChain
from tailrace.core.log.segment_writer import SegmentWriter
from tailrace.core.log.timed_roll import TimedRoll
from tailrace.core.log.transmit import ControlPolicy, TransmitPolicy
from tailrace.core.log.waiting_records import NEVER_MS, WaitingRecords
from tailrace.core.log.write_limits import WriteLimits
from tailrace.protocol.distributedlog.dlsn import DLSN
from tailrace.protocol.distributedlog.record import END_OF_STREAM_TXID, HEADER_SIZE, INVALID_TXID
from tailrace.protocol.ids import Buffer, TxId

logger = logging.getLogger(__name__)


class RecordSender:
    """What a log writer does for each record. All calls come from the loop."""

    __slots__ = (
        "_appended", "_chain", "_clock", "_confirmed", "_control", "_end", "_error",
        "_is_blocked", "_is_bulk", "_is_closing", "_limits", "_listener", "_loop",
        "_metrics", "_permits", "_policy", "_receipts", "_refusal", "_sizes",
        "_timed_roll", "_transmit_handle", "_waiting", "_waiting_bytes_max", "_watcher",
        "confirmed_txid", "last_txid", "on_refused", "rolling",
    )  # fmt: skip

    _is_blocked: bool
    """Records wait for room or for a new segment, not for the policy."""
    _is_bulk: bool
    """More records come before the policy is asked."""
    _error: CoreError | None
    _refusal: CoreError | None
    """Why no record is taken any more: failed, closed, or sealed."""
    _end: asyncio.Future[DLSN] | None
    """Position of the end of the stream, once that was asked for."""
    _transmit_handle: asyncio.Handle | None
    _receipts: Receipts | None
    _limits: WriteLimits | None

    def __init__(
        self,
        watcher: TailWatcher,
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
        self.on_refused: Callable[[CoreError], None] | None = None
        """Hears that nothing of what was appended is in the log, which has no segment and can get
        no ledger for one now; the writer lives, and tries again with later records. None: it fails
        instead. Without a segment everything else is as after opening: readers miss nothing."""
        self.rolling = RollingPolicy(config.segment_bytes, config.segment_minutes * 60_000)
        """May be replaced at any time; holds from the next entry on."""
        self._watcher = watcher
        self._chain = chain
        self._listener = listener
        self._sizes = RecordSizes(chain, config.record_bytes_max)
        self._waiting_bytes_max = config.waiting_bytes_max
        self._clock = context.clock
        self._metrics = context.metrics
        self._permits = context.limits.rolls
        self._loop = asyncio.get_running_loop()
        self._policy = TransmitPolicy.of(config)
        self._waiting = WaitingRecords()
        self._timed_roll = TimedRoll(context.rng, self._transmit)
        self._is_blocked = self._is_bulk = self._is_closing = False
        self._error = self._refusal = None
        self._end = self._transmit_handle = self._receipts = self._limits = None
        self._control = ControlRecords(ControlPolicy.of(config), chain, self)
        self._appended = self._confirmed = 0
        """Records, each value of a record set counted, in the life of this writer."""
        chain.bind(self)

    @property
    def lssn(self) -> int:
        """Log segment sequence number of the current segment, or of the one to be started."""
        return self._chain.lssn

    @property
    def waiting_bytes(self) -> int:
        """Bytes of records that were appended and not yet sent."""
        return self._waiting.payload_bytes

    @property
    def waiting_records(self) -> int:
        """How many records were appended and not yet sent; a record set is one."""
        return len(self._waiting.records)

    @property
    def error(self) -> CoreError | None:
        """Why the writer is dead."""
        return self._error

    def append(
        self,
        txid: TxId,
        payload: Sequence[Buffer],
        length: int,
        values: int = 0,
        time_ms: int = -1,
    ) -> None:
        """Take a record of `length` bytes in parts; the listener hears when it is confirmed.

        The parts must not change until then. `values`: of the record set in the payload, if it is
        one. `time_ms`: when it was made, which decides where a segment ends; -1: the clock does.
        Errors: TransactionIdOutOfOrder, LogRecordTooLong, OverCapacity, NotEnoughBookies (only the
        next segment may have room for it): nothing was taken, the writer lives. EndOfStream: the
        log was sealed. Any other CoreError: the writer is dead or closed; it may have died of this
        very record, whose fate recovery decides then.
        """
        if self._refusal is not None:
            raise self._refusal.with_traceback(None)
        if not self.last_txid <= txid < END_OF_STREAM_TXID or txid < 0:
            raise TransactionIdOutOfOrder(f"txid {txid} after {self.last_txid}")
        if length > self._sizes.fits_anywhere:
            self._check_large(length)
        waiting = self._waiting
        waiting_bytes = waiting.payload_bytes + length
        if waiting_bytes > self._waiting_bytes_max and waiting.records:  # one always has room
            self._metrics.refused_appends_total += 1
            raise OverCapacity(f"{waiting.payload_bytes} bytes wait for the bookies already")
        if self._limits is not None:
            self._limits.check()
            self._limits.add(values or 1)
        waiting.payload_bytes = waiting_bytes
        waiting.records.append((txid, payload, length, values))
        waiting.times.append(time_ms)
        self._appended += values or 1
        self.last_txid = txid
        buffer_bytes = self._policy.buffer_bytes
        if self._transmit_handle is None or (
            buffer_bytes and waiting_bytes + HEADER_SIZE * len(waiting.records) > buffer_bytes
        ):
            self._plan_transmission()
            if self._error is not None:
                raise self._error.with_traceback(None)

    def _append_fitting(self, txid: TxId, payloads: Sequence[Buffer]) -> bool:
        """Take records of one txid that `append` would take each; False: one of them needs it.

        Nothing is sent yet.
        """
        waiting = self._waiting
        sizes = list(map(len, payloads))
        waiting_bytes = waiting.payload_bytes + sum(sizes)
        if (
            self._refusal is not None
            or self._limits is not None
            or not self.last_txid <= txid < END_OF_STREAM_TXID
            or txid < 0
            or waiting_bytes > self._waiting_bytes_max
            or max(sizes, default=0) > self._sizes.fits_anywhere
        ):
            return False
        waiting.payload_bytes = waiting_bytes
        waiting.records.extend(
            [(txid, (each,), size, 0) for each, size in zip(payloads, sizes, strict=True)]
        )
        waiting.times.extend(repeat(-1, len(sizes)))
        self._appended += len(sizes)
        if sizes:
            self.last_txid = txid
        return True

    def _check_large(self, length: int) -> None:
        try:
            self._sizes.check(length)
        except NotEnoughBookies:
            self._begin_larger_segment()
            self._metrics.refused_appends_total += 1
            raise

    def _begin_larger_segment(self) -> None:
        """Begin one that takes what the log takes, if there is one that does not."""
        segment = self._chain.writable
        if segment is None or self._error is not None or self._end is not None:
            return
        if self._sizes.is_segment_small and self._may_roll(self._clock.now_ms()):
            self._chain.advance(segment.last_txid, must_be_larger=True)

    # ------------------------------------------------------------------ sending

    def _plan_transmission(self) -> None:
        """Send after this turn, or now if enough waits, or in a while, as the policy says."""
        policy = self._policy
        if not policy.buffer_bytes:
            self._transmit_handle = self._loop.call_soon(self._on_time)
            return
        if self._is_bulk:
            return
        if self._waiting.size_bytes > policy.buffer_bytes:
            self._transmit()
        elif self._transmit_handle is None and policy.interval_ms:
            delay_s = policy.interval_ms / 1000
            self._transmit_handle = self._loop.call_later(delay_s, self._on_time)

    def _on_time(self) -> None:
        self._transmit_handle = None
        self._transmit()

    def _transmit(self) -> None:
        if self._transmit_handle is not None:
            self._transmit_handle.cancel()
            self._transmit_handle = None
        if self._error is not None:
            return
        waiting = self._waiting.records
        segment = self._chain.writable
        if segment is None:
            self._start_first_segment()
            return
        try:
            while waiting and segment.has_room and self._send_entry(segment):
                pass
            if self._end is not None and not waiting:
                self._send_end(segment)
        except CoreError as error:
            self.fail(error)
            return
        except Exception as error:  # a bug: no record may follow the one that it took
            self.fail(Unavailable(f"sending records failed: {error!r}"))
            raise
        self._is_blocked = bool(waiting)
        self._roll_if_due(segment)

    def _send_entry(self, segment: SegmentWriter) -> bool:
        """Send as many waiting records as fit into one entry, at least one.

        False: nothing was sent, the first one waits for the next segment.
        """
        first_ms = self._waiting.times[0]
        before = segment.records
        if not before:
            self._timed_roll.begin(first_ms)
        latest_ms = self._timed_roll.latest_ms(self.rolling)
        if first_ms > latest_ms:
            latest_ms = self._begin_timed_roll(segment)
            if first_ms > latest_ms:
                return False
        records, size = self._waiting.take(latest_ms)
        segment.add_records(records, size)
        if self._receipts is not None:
            already = self._chain.records_before
            entry = segment.last_user._replace(slot=0)
            self._receipts.on_sent(already + before, already + segment.records, entry)
        return True

    def _begin_timed_roll(self, segment: SegmentWriter) -> int:
        """Begin the next segment if that may be; return which records go on into this one."""
        if self._end is None and self._may_roll(self._clock.now_ms()):
            self._chain.advance(segment.last_txid)
        if self._chain.roll.phase is RollPhase.STEADY or self._is_closing:
            return NEVER_MS
        return self._timed_roll.latest_meanwhile_ms(self.rolling)

    def _send_end(self, segment: SegmentWriter) -> None:
        """Seal the segment, unless it was, or the next one is being made: that one is the last."""
        if not segment.is_ended and self._chain.roll.phase is not RollPhase.ALLOCATING:
            segment.add_end_of_stream()

    def _start_first_segment(self) -> None:
        """Begin to, if there is work for it; wait for it, or for the one that a roll brings.

        For a while after there was no ledger for it what waits is refused, in the loop's next step:
        an append returns before its record is.
        """
        self._is_blocked = True
        chain = self._chain
        if chain.current is not None or chain.roll.phase is not RollPhase.STEADY:
            return
        waiting = self._waiting.records
        if waiting and self.can_refuse() and chain.refusal is not None:
            self._transmit_handle = self._loop.call_soon(self._refuse_waiting, chain.refusal)
        elif waiting or (self._end is not None and not self._end.done()):
            first_txid = self.confirmed_txid
            if first_txid == INVALID_TXID:
                first_txid = waiting[0][0] if waiting else END_OF_STREAM_TXID
            chain.advance(first_txid)

    def _roll_if_due(self, segment: SegmentWriter) -> None:
        policy = self.rolling
        if policy.segment_bytes or policy.segment_ms or segment.records >= SEGMENT_RECORDS_MAX:
            now_ms = self._clock.now_ms()
            age_ms = 0
            if not self._timed_roll.is_by_records:
                age_ms = now_ms - segment.started_ms + self._timed_roll.taken_off_ms(policy)
            is_due = policy.is_due(segment.size_bytes, age_ms, segment.records)
            if is_due and segment.records and self._end is None and self._may_roll(now_ms):
                self._chain.advance(segment.last_txid)

    def _may_roll(self, now_ms: int) -> bool:
        if self._is_closing:  # the current segment is the one that is completed
            return False
        return self._chain.roll.may_begin(now_ms) and self._permits.take(now_ms)

    def on_switched(self, *, is_first_entry_free: bool) -> None:
        """Go on in the new segment (ChainUser)."""
        segment = self._chain.writable
        self._timed_roll.release()
        if (
            is_first_entry_free
            and not self._waiting.records
            and self._end is None
            and segment is not None
        ):
            segment.add_control()  # so that the bookies know the ledger
        self._control.on_segment()
        self._transmit()

    def can_refuse(self) -> bool:
        """Tell whether somebody hears of refused records and the log goes on (ChainUser)."""
        return self.on_refused is not None and self._end is None and not self._is_closing

    def largest_waiting(self) -> int:
        """Return the bytes of the largest record that was not sent, 0 for none (ChainUser)."""
        return self._waiting.largest

    def on_roll_ended(self) -> None:
        """Do what waited for the end of a roll, however that ended (ChainUser)."""
        self._timed_roll.release()
        if self._is_blocked or self._end is not None or self._chain.current is None:
            self._transmit()

    def _refuse_waiting(self, error: CoreError) -> None:
        """Give back every record."""
        self._transmit_handle = None
        refused, self._appended = self._appended - self._confirmed, self._confirmed
        self._waiting.clear()
        self.last_txid = self.confirmed_txid
        self._metrics.refused_appends_total += refused
        if self._limits is not None:
            self._limits.release(refused)
        if self._receipts is not None:
            self._receipts.on_failed(error)
            self._receipts = None
        if self.on_refused is not None:
            self.on_refused(error)

    # ------------------------------------------------------------------ confirmation

    def on_segment_confirmed(self, segment: SegmentWriter) -> None:
        """Report what is confirmed and send what waits for room (SegmentListener)."""
        chain = self._chain
        if self._error is not None or segment is not chain.current:
            return  # an old segment's index: all its records were confirmed before the switch
        confirmed = chain.records_before + segment.confirmed_records
        if self._receipts is not None:
            lac = DLSN(segment.metadata.lssn, segment.lac, 0)
            self._receipts.on_confirmed(confirmed, lac)
        if confirmed > self._confirmed:
            if self._limits is not None:
                self._limits.release(confirmed - self._confirmed)
            self._confirmed = confirmed
            self.confirmed_txid = segment.confirmed_txid
            self._listener.on_confirmed(segment.confirmed_txid)
        if self._is_blocked:
            self._transmit()
        if segment.is_confirmed:
            self._on_quiet(segment)
        self._watcher.on_tail_moved()

    def _on_quiet(self, segment: SegmentWriter) -> None:
        """Nothing is on its way any more."""
        self._chain.on_all_confirmed()
        if self._receipts is not None and self._receipts.is_idle:
            self._receipts = None  # most logs are idle most of the time
        if segment.is_ended and self._end is not None and not self._end.done():
            self._end.set_result(segment.last_user)
        if not segment.is_published:
            self._control.on_unpublished()

    def send_waiting(self) -> bool:
        """Send what waits, if anything does (ControlUser)."""
        if not self._waiting.records:
            return False
        self._transmit()
        return True

    # ------------------------------------------------------------------ failure

    def on_segment_failed(self, segment: SegmentWriter, error: CoreError) -> None:
        """Fail with the ledger (SegmentListener)."""
        self.fail(error)

    def on_chain_failed(self, error: CoreError) -> None:
        """Fail with the chain: there is no next segment (ChainUser)."""
        self.fail(error)

    def fail(self, error: CoreError) -> None:
        """Take no more records and tell everybody; also when the lock is somebody else's."""
        if self._error is None:
            logger.warning("log_writer_failed lssn=%d error=%r", self.lssn, error)
            self._metrics.failed_writers_total += 1
            self._stop(error)
            self._listener.on_failed(error)

    def _stop(self, reason: CoreError) -> None:
        if self._error is not None:
            return
        self._error = reason
        is_sealed = self._end is not None and self._end.done()
        if not is_sealed:
            self._refusal = reason
        if self._transmit_handle is not None:
            self._transmit_handle.cancel()
            self._transmit_handle = None
        self._control.close()
        self._timed_roll.release()
        self._waiting.clear()
        self._chain.fail()
        self._release_waiters(reason)

    def _release_waiters(self, reason: CoreError) -> None:
        if self._receipts is not None:
            self._receipts.on_failed(reason)
        if self._end is not None:
            refuse(self._end, reason)
        if self._limits is not None:
            self._limits.close()
            self._limits = None
