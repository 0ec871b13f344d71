"""What a state machine needs of the partition that keeps its records, and how it reads them."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, Generic, NamedTuple, Protocol, TypeAlias, TypeVar

from tailrace.broker.replicated.effects import InTransaction, StateRecord
from tailrace.broker.replicated.newest import NewestValues
from tailrace.core.errors import Unavailable
from tailrace.protocol.errors import ErrorCode, ProtocolError
from tailrace.protocol.ids import Buffer, Offset, TopicPartition
from tailrace.protocol.records.batch import (
    NO_PRODUCER_ID,
    TRANSACTIONAL,
    read_header,
    split_batches,
)
from tailrace.protocol.records.control import read_marker
from tailrace.protocol.records.record import Producer, build_batch, iter_records, key_value_records

logger = logging.getLogger(__name__)

U = TypeVar("U")

ReadRecord: TypeAlias = Callable[[bytes | None, bytes], U | None]
"""What a record says; None for a kind that is not ours. Errors: ProtocolError for other bytes."""


class Pending(NamedTuple, Generic[U]):
    """What a record of a transaction says whose end is not on the stream yet."""

    producer_id: int
    update: U


RECORDS_AT_ONCE = 500
"""Records that are read between two turns of the loop: nobody else waits longer for them."""

RECORD_OVERHEAD_BYTES = 32
"""Upper bound for what a batch needs for one record beside its key and value."""


class Appended(Protocol):
    """What becomes of an append: `broker.partition.Append` is one, a future is too."""

    def result(self) -> object:
        """Return an ErrorCode if it failed."""

    def add_done_callback(self, callback: Callable[[Any], object], /) -> object:
        """Have `callback` called with this once it is done, at once or later."""


class RecordLog(Protocol):
    """A partition of an internal topic; `broker.partition.PartitionLog` is one."""

    @property
    def leader_epoch(self) -> int:
        """At which this owner took over: larger than every former one's."""

    @property
    def failure(self) -> ErrorCode | None:
        """Why nothing goes in or out any more; None while it is open."""

    @property
    def log_start_offset(self) -> Offset:
        """First offset that is kept."""

    @property
    def log_end_offset(self) -> Offset:
        """Next offset to be written."""

    def append(self, batch: memoryview, /) -> "Appended":
        """Append in order of calls; done when it is confirmed. Fails by an ErrorCode as result."""

    def append_marker(
        self,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int,
        committed: bool,  # noqa: FBT001 - PartitionLog's
        transaction_version: int,
        /,
    ) -> "Appended":
        """End a producer's transaction, in order with the appends."""

    async def unpacked(self, batch: Buffer, /) -> Buffer:
        """Return a whole batch without compression. Errors: CoreError."""

    async def read(self, offset: Offset, max_bytes: int, /) -> Sequence[Buffer]:
        """Return whole batches from the one that holds `offset`; at least one if there is any."""


class RecordLogs(Protocol):
    """Where partitions are opened; `broker.partition.PartitionLogs` is one."""

    def get(self, tp: TopicPartition, /) -> RecordLog | None:
        """Return the partition if it is open here."""

    async def open(self, tp: TopicPartition, /) -> RecordLog:
        """Open the partition as its owner. Errors: KafkaError, CoreError."""


def size_of(records: Sequence[StateRecord]) -> int:
    """Return the most bytes that the records take in a batch."""
    return sum(
        len(record.key) + len(record.value or b"") + RECORD_OVERHEAD_BYTES for record in records
    )


def to_batch(
    records: Sequence[StateRecord], now_ms: int, transaction: InTransaction | None = None
) -> memoryview:
    """Return the records as one batch, ready for `append`; of a producer's transaction, if so."""
    pairs = key_value_records(records, now_ms)
    if transaction is None:
        return memoryview(build_batch(pairs))
    producer = Producer(*transaction, base_sequence=0)  # Kafka's own number; nobody counts them
    return memoryview(build_batch(pairs, producer=producer, attributes=TRANSACTIONAL))


async def read_updates(
    log: RecordLog, max_bytes: int, read_record: ReadRecord[U]
) -> AsyncIterator[U | Pending[U]]:
    """Yield what the log says now: the newest record of each key, as compaction would leave it.

    Shape: in the order of the stream; what waits for the end of a transaction is `Pending`.
    Nothing depends on what came before a key's newest record, so the others are not even decoded.
    A record that says nothing we can read is logged and left out: refusing the whole partition
    for it would take away everything else in it too.
    Errors: CoreError of the log; Unavailable if it ends before its own end offset.
    """
    for count, newest in enumerate(await _read_newest(log, max_bytes)):
        update = _read(newest.key, newest.value, read_record)
        if update is not None and newest.producer_id != NO_PRODUCER_ID:
            yield Pending(newest.producer_id, update)
        elif update is not None:
            yield update
        if count % RECORDS_AT_ONCE == 0:
            await asyncio.sleep(0)


async def _read_newest(log: RecordLog, max_bytes: int) -> NewestValues:
    newest = NewestValues()
    offset, end = log.log_start_offset, log.log_end_offset
    while offset < end:
        next_offset = offset
        for buffer in await log.read(offset, max_bytes):
            for start, stop in split_batches(buffer):
                batch = memoryview(buffer)[start:stop]
                await _take(log, batch, newest)
                next_offset = read_header(batch).last_offset + 1
        if next_offset <= offset:
            raise Unavailable(f"nothing at offset {offset} of {end}")
        offset = next_offset
    return newest


async def _take(log: RecordLog, batch: Buffer, newest: NewestValues) -> None:
    header = read_header(batch)
    if header.is_control:
        _take_marker(batch, header.producer_id, newest)
        return
    producer_id = header.producer_id if header.is_transactional else NO_PRODUCER_ID
    if header.codec:
        batch = await log.unpacked(batch)
    for count, record in enumerate(iter_records(batch)):
        newest.put(record.key, record.value, producer_id)
        if count % RECORDS_AT_ONCE == 0:
            await asyncio.sleep(0)


def _take_marker(batch: Buffer, producer_id: int, newest: NewestValues) -> None:
    try:
        marker = read_marker(batch)
    except ProtocolError as error:
        logger.error("state_marker_unreadable producer=%d error=%r", producer_id, error)  # noqa: TRY400 - the reason is the bytes, not the stack
        return
    if marker is not None:
        newest.end(producer_id, is_commit=marker.committed)


def _read(key: bytes | None, value: bytes, read_record: ReadRecord[U]) -> U | None:
    try:
        return read_record(key, value)
    except ProtocolError as error:
        logger.error("state_record_unreadable key=%r error=%r", key, error)  # noqa: TRY400 - the reason is the bytes, not the stack
        return None
