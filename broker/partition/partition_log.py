"""One partition: appends in, batches out, the high watermark between them.

Invariants: offsets are dense and follow the order of `append` calls; the high watermark moves only
when the log confirms, and never back; what a consumer reads lies below it. An append that was in
flight when the log failed is answered as unknown (NOT_LEADER_OR_FOLLOWER, which clients retry); the
object is dead then: `PartitionLogs` opens a new one.
Flow: Admission -> append -> LogWriter -> on_confirmed -> tail cache, waiters, outcomes.
"""

import asyncio
import logging
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from tailrace.broker.cluster.settings import TopicSettings
from tailrace.broker.errors import error_code
from tailrace.broker.partition.appends import Append, AppendResult
from tailrace.broker.partition.batch_rules import BatchRules
from tailrace.broker.partition.in_order import InOrder
from tailrace.broker.partition.leader_epochs import LeaderEpochs
from tailrace.broker.partition.notes import LogNotes, read_notes
from tailrace.broker.partition.packing import Packer
from tailrace.broker.partition.producer_state import ActiveProducer, SeenBatch
from tailrace.broker.partition.readable import ReadablePartition, SharedParts
from tailrace.broker.partition.unstable import UnstableOffsets
from tailrace.broker.partition.verifications import Verifications
from tailrace.core.errors import BadVersion, CoreError
from tailrace.core.log.log import Log
from tailrace.core.log.rolling import RollingPolicy
from tailrace.core.log.writer import LogWriter
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.ids import Offset, TopicPartition, TxId
from tailrace.protocol.records.batch import (
    CONTROL,
    TRANSACTIONAL,
    BatchHeader,
    is_headed,
    read_header,
    stamp,
    stamp_log_append_time,
    with_header,
)
from tailrace.protocol.records.control import EndTransaction, build_marker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

logger = logging.getLogger(__name__)

GAPS_EXCUSED_S = 10.0
"""How long after batches were refused, or their fate became unknown, those behind them may come."""


class PartitionLog(ReadablePartition):
    """An open, owned partition. `log_end_offset` is the next offset to be written."""

    def __init__(
        self, partition: TopicPartition, log: Log, settings: TopicSettings, shared: SharedParts
    ) -> None:
        super().__init__(partition, log, shared)
        self.notes = LogNotes()
        """What is on disk with the stream, as far as this owner knows; see `note`."""
        self.on_dead: Callable[[PartitionLog], None] = _nobody
        """Called once, when `failure` is set for good."""
        self._clock = shared.clock
        self._writer: LogWriter | None = None
        self._pending: deque[Append] = deque()
        self._noting = asyncio.Lock()
        self._start_claimed: Offset = 0
        self._producers = self.state.producers
        self._gaps_excused_until_s = 0.0
        self._verifications = Verifications()
        self.order = InOrder()
        self._packer = Packer(str(partition), self.order, shared.lane, self.excuse_gaps)
        self.use_settings(settings)

    def use_settings(self, settings: TopicSettings) -> None:
        """Follow the topic's configs from the next append on."""
        self.settings = settings
        self.rules = BatchRules(settings, self._clock)
        if self._writer is not None:
            self._writer.rolling = RollingPolicy(
                settings.segment_bytes, settings.roll_ms, settings.segment_jitter_ms
            )
            self._writer.take_records(settings.max_message_bytes)

    def start(self, writer: LogWriter, notes: LogNotes) -> None:
        """Begin to serve what the log holds; everything recovered is confirmed."""
        self._writer = writer
        writer.on_refused = self._on_refused
        self.notes = notes
        log_start_offset = notes.log_start_offset
        self.use_settings(self.settings)
        self.epochs = LeaderEpochs(self.state.epochs.entries)
        self.leader_epoch = max(writer.lssn + writer.number, self.epochs.last + 1)
        end = max(self.state.next_offset, writer.last_txid + 1, log_start_offset, 0)
        self.log_end_offset = self.high_watermark = end
        self.log_start_offset = self._start_claimed = log_start_offset
        self.epochs.begin(self.leader_epoch, end)
        self._producers = self.state.producers.copy()  # runs ahead of the log's own from here on
        self._unstable = UnstableOffsets(self._producers.open)

    # -- writing ----------------------------------------------------------------------------------

    def check(self, batch: memoryview) -> BatchHeader:
        """Check all of what a client sent; its header goes into `append`. Errors: InvalidBatch."""
        return self.rules.check_records(batch, self.rules.check_header(batch))

    def append(  # noqa: C901, PLR0912 - hot: its parts are here and not behind calls
        self,
        batch: memoryview,
        header: BatchHeader | None = None,
        *,
        verified: bool = False,
        is_packed: bool = False,
    ) -> Append:
        """Put a batch at the end of the log: order is decided by the order of calls.

        `header`: of a checked batch of a client. Without it the batch is the broker's own: its
        sequences are not checked. `verified`: the coordinator says that the partition is in the
        producer's transaction; asked for only where `has_open_transaction` says no. `is_packed`: in
        the topic's codec; else it is packed beside the loop first.
        The batch is stamped in place, and belongs to the log.
        Errors: none, the outcome says what went wrong. Cancel: the append happens anyway.
        """
        if self.failure is not None:
            return Append.answered(self.failure)
        if self.order.is_busy:
            return self.order.later(
                partial(self.append, batch, header, verified=verified, is_packed=is_packed)
            )
        verdict: SeenBatch | ErrorCode | None = None
        if header is None:
            header = read_header(batch)
            assert not header.attributes & CONTROL, "markers are append_marker's"
            batch = memoryview(bytearray(batch)) if batch.readonly else batch
            verdict = self._producers.check_own(header)
        elif header.producer_id >= 0:
            verdict = self._producers.check(header, verified)
            if self._gaps_excused_until_s:
                verdict = self._excused(header, verdict)
        if verdict is not None:
            return self._repeated(verdict)
        stored_as = self.rules.stored_as
        if not is_packed and stored_as is not None and stored_as.codec != header.codec:
            packed = partial(self.append, header=header, verified=verified, is_packed=True)
            return self._packer.append(batch, header, self.rules, packed)
        if not is_packed and not is_headed(batch, header):  # its own claimed what is not so
            batch = with_header(batch, header)
        last = self.log_end_offset + header.last_offset_delta
        append = self._enqueue(batch, last, header.max_timestamp)
        if header.producer_id >= 0 and append.base_offset >= 0:  # else the log refused it
            base = append.base_offset
            self._producers.record(header, base, self.state.now_ms, append.log_append_time)
            if header.attributes & TRANSACTIONAL:
                self._on_transactional(header.producer_id, append)
        return append

    def begin_verification(self, header: BatchHeader, *, bumps_epoch: bool) -> int | ErrorCode:
        """Return the guard for `append_verified`, or why the coordinator need not be asked.

        `bumps_epoch`: the producer's epoch rises with every transaction (Produce v12 and later).
        """
        if header.producer_epoch < self._producers.epoch_of(header.producer_id):
            return ErrorCode.INVALID_PRODUCER_EPOCH
        now_ms = self._clock.now_ms()
        return self._verifications.begin(header, now_ms, bumps_epoch=bumps_epoch)

    def append_verified(self, batch: memoryview, header: BatchHeader, guard: int) -> Append:
        """Append a client's batch that its coordinator said yes to; see `append`."""
        if self.order.is_busy:
            return self.order.later(partial(self.append_verified, batch, header, guard))
        producer_id = header.producer_id
        knows_batches = self._producers.has_batches(producer_id)
        if self._verifications.is_early(header, knows_batches=knows_batches):
            code = self._excused(header, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
            return self._repeated(code or ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
        verified = self._verifications.holds(producer_id, guard)
        return self.append(batch, header, verified=verified)

    def append_marker(
        self,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int,
        committed: bool,  # noqa: FBT001 - as agreed with those who call it
        transaction_version: int = 0,
    ) -> Append:
        """End a producer's transaction: its control batch goes to the end of the log.

        `transaction_version`: 2 if the epoch is the transaction's plus one (KIP-890). A marker that
        was written before is written again and changes nothing.
        Errors: none; the outcome may be INVALID_PRODUCER_EPOCH or TRANSACTION_COORDINATOR_FENCED.
        """
        if self.order.is_busy:
            same = producer_id, producer_epoch, coordinator_epoch, committed, transaction_version
            return self.order.later(partial(self.append_marker, *same))
        code = self.failure or self._producers.check_marker(
            producer_id, producer_epoch, coordinator_epoch, transaction_version
        )
        if code:
            return Append.answered(code)
        marker = EndTransaction(committed, coordinator_epoch)
        timestamp = self._clock.now_ms()
        batch = memoryview(build_marker(producer_id, producer_epoch, marker, timestamp))
        offset = self.log_end_offset
        append = self._enqueue(batch, offset, timestamp)
        if append.base_offset < 0:
            return append  # the log refused it
        now_ms = self.state.now_ms  # as the log's own table has it: the next life reads that one
        ended = self._producers.end_transaction(producer_id, producer_epoch, marker, offset, now_ms)
        self._verifications.forget(producer_id)
        if ended is not None:
            self._unstable.end(ended.first_offset, offset)
        return append

    def _on_transactional(self, producer_id: int, append: Append) -> None:
        """Count a batch of a transaction, which may begin with it."""
        self._verifications.forget(producer_id)
        if append.base_offset in self._producers.open:
            self._unstable.begin(append.base_offset, len(append.batch))

    def _enqueue(self, batch: memoryview, last: Offset, made_ms: int) -> Append:
        """Stamp a batch that takes offsets up to `last`, and give it to the log.

        `made_ms`: the largest timestamp of its records; segments roll by it.
        """
        base = self.log_end_offset
        stamp(batch, base, self.leader_epoch)
        now_ms = self.state.now_ms = self._clock.now_ms()  # also for the log's table of producers
        time_ms = -1
        if self.rules.log_append_time:
            made_ms = time_ms = now_ms
            stamp_log_append_time(batch, time_ms)
        assert self._writer is not None
        try:
            self._writer.append(last, (batch,), len(batch), time_ms=made_ms)
        except CoreError as error:
            logger.warning("append failed partition=%s error=%r", self.partition, error)
            if error.retriable:
                self.excuse_gaps()
            return Append.answered(error_code(error))
        append = Append(batch, base, last, time_ms)
        self._pending.append(append)
        self._unstable.appended += len(batch)
        self.log_end_offset = last + 1
        return append

    def on_confirmed(self, txid: TxId) -> None:
        """Make everything up to offset `txid` readable: called by the log."""
        pending = self._pending
        confirmed = []
        size = 0
        while pending and pending[0].last_offset <= txid:
            append = pending.popleft()
            confirmed.append(append)
            size += len(append.batch)
            self.tail.append(append.last_offset, append.batch)
        if txid >= self.high_watermark:
            self.high_watermark = txid + 1
            self.waiters.on_bytes(size, self._unstable.confirm(txid, size))
        start = self.log_start_offset
        for append in confirmed:  # last: they call back, and find everything as it is now
            append.settle(AppendResult(append.base_offset, append.log_append_time, start))

    def _on_refused(self, error: CoreError) -> None:
        """Answer what was appended as not written, and forget it: called by the log's writer.

        No ledger for a first segment: nothing is in flight, what is confirmed stays readable.
        """
        pending, self._pending = self._pending, deque()
        self.log_end_offset = self.high_watermark
        self._producers = self.state.producers.copy()
        self._unstable = UnstableOffsets(self._producers.open)
        self.excuse_gaps()
        code = error_code(error)
        for append in pending:
            append.settle(code)

    def excuse_gaps(self) -> None:
        """Have producers told to try again, for a while, what comes behind a batch that is missing.

        The one before it comes again. Out of order would have librdkafka renumber its records,
        those of unknown fate too: one that is in the log would be written twice. Of a producer that
        is not known here it would be taken, before the missing one.
        """
        self._gaps_excused_until_s = self._clock.monotonic_s() + GAPS_EXCUSED_S

    def _excused(
        self, header: BatchHeader, verdict: SeenBatch | ErrorCode | None
    ) -> SeenBatch | ErrorCode | None:
        """Return what a batch is told instead, while gaps are excused."""
        if self._clock.monotonic_s() >= self._gaps_excused_until_s:
            self._gaps_excused_until_s = 0.0
        elif verdict is None or verdict is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
            return ErrorCode.NOT_ENOUGH_REPLICAS if self._producers.is_ahead(header) else verdict
        return verdict

    def on_failed(self, error: CoreError) -> None:
        """Answer everything in flight as unknown: called by the log, at most once."""
        if self.failure is None:
            logger.warning("partition failed partition=%s error=%r", self.partition, error)
        self._end(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    async def close(self) -> None:
        """Finish what is in flight and give the log up. Idempotent. Errors: none."""
        failed = self.failure is not None
        self.failure = self.failure or ErrorCode.NOT_LEADER_OR_FOLLOWER  # nothing new comes in
        writer, self._writer = self._writer, None
        if writer is not None:
            try:
                await (writer.abort() if failed else writer.close())
            except CoreError as error:
                logger.warning("close failed partition=%s error=%r", self.partition, error)
        self._end(self.failure)

    def has_open_transaction(self, producer_id: int, producer_epoch: int) -> bool:
        """Whether a producer has a transaction open here; its next batch needs no verification."""
        return self._producers.is_in_transaction(producer_id, producer_epoch)

    def producers(self) -> "Iterator[ActiveProducer]":
        """Return the producers that are known now, with their open transactions."""
        return self._producers.active()

    # -- upkeep -----------------------------------------------------------------------------------

    def claim_start(self, offset: Offset) -> Offset:
        """Return what the log start is to become: never less than another call asked for."""
        self._start_claimed = max(self._start_claimed, offset)
        return self._start_claimed

    def move_start(self, offset: Offset) -> None:
        """Hide what lies before `offset`, which is on disk as the log start."""
        self.log_start_offset = max(self.log_start_offset, offset)
        self.epochs.forget_before(self.log_start_offset)
        self.waiters.wake_all()

    async def note(self, **changes: Any) -> None:
        """Change what is on disk with the stream, one after the other. Shape: fields of LogNotes.

        Errors: BadVersion: another owner changed it, and `notes` is read again; CoreError.
        """
        async with self._noting:  # the cleaner and DeleteRecords write the whole, each its own part
            notes = msgspec.structs.replace(self.notes, **changes)
            try:
                await self.log.set_data(notes.encode())
            except BadVersion:
                self.notes = await read_notes(self.log)
                raise
            self.notes = notes

    async def roll(self) -> None:
        """End the segment that is being written. Errors: CoreError."""
        if self._writer is not None:
            await self._writer.roll()

    def expire_producers(self, before_ms: int) -> int:
        """Forget producers that wrote last before `before_ms`; return how many.

        Those with open transactions stay.
        """
        self._verifications.expire(before_ms)
        self.state.producers.expire(before_ms)
        return self._producers.expire(before_ms)

    def _repeated(self, verdict: SeenBatch | ErrorCode) -> Append:
        """Answer a batch that is no news: a duplicate gets what the original gets."""
        if isinstance(verdict, ErrorCode):
            return Append.answered(verdict)
        for append in self._pending:  # still in flight: both wait for the same confirmation
            if append.base_offset == verdict.base_offset:
                return append
        return Append.answered(
            AppendResult(verdict.base_offset, verdict.log_append_time, self.log_start_offset)
        )

    def _end(self, code: ErrorCode) -> None:
        self.failure = code
        pending, self._pending = self._pending, deque()
        self.tail.clear()
        self.waiters.wake_all()
        on_dead, self.on_dead = self.on_dead, _nobody
        on_dead(self)
        for append in pending:
            append.settle(code)


def _nobody(_log: PartitionLog) -> None:
    """Tell nobody."""
