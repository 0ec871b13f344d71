"""The producers of one partition: which batch is new, which is a repeat, which is refused.

Pure. A producer numbers its records per partition; the log keeps the newest batches of each and so
tells a retry from news. It also keeps where each producer's open transaction begins. State changes
only through `record()` and `end_transaction()`, in log order.
Source: reference Kafka 4.2; ProducerStateManager, ProducerAppendInfo (Kafka 4.3.1).
"""

from collections.abc import Iterable
from struct import Struct
from struct import error as struct_error

from broker.partition.producer_state import (
    NO_TRANSACTION,
    SEQUENCE_MODULUS,
    ActiveProducer,
    CompletedTransaction,
    KnownProducer,
    SeenBatch,
    sequence_after,
)
from protocol.errors import BadLength, BadValue, BufferUnderflow, ErrorCode
from protocol.ids import Buffer, Offset
from protocol.records.batch import TRANSACTIONAL, BatchHeader
from protocol.records.control import EndTransaction

BATCHES_KEPT = 5
"""As many as a producer may have in flight."""

PRODUCERS_MAX = 100_000
"""Producers of one partition; beyond it those that wrote longest ago are forgotten, but none that
has an open transaction."""

TRANSACTIONS_MAX = PRODUCERS_MAX // 2
"""Open transactions of one partition; who would begin another gets NOT_ENOUGH_REPLICAS, on which
producers try again."""

TRANSACTION_VERSION_2 = 2
"""KIP-890: a marker's epoch is the transaction's plus one."""
EPOCH_MAX = (1 << 15) - 1
"""Where a marker of version 2 cannot bump the epoch any more."""

_COUNT = Struct(">I")
_PRODUCER = Struct(">qhqiqB")  # id, epoch, active, coordinator epoch, transaction, batches
_PRODUCER_V1 = Struct(">qhqB")
_BATCH = Struct(">iqiq")  # last sequence, base offset, offset delta, log append time


class Producers:
    """All producers that wrote to a partition lately.

    Shape: at most `BATCHES_KEPT` batches each and `PRODUCERS_MAX` producers.
    """

    __slots__ = ("_producers", "open")

    def __init__(self) -> None:
        self._producers: dict[int, KnownProducer] = {}
        self.open: dict[Offset, int] = {}
        """Open transactions: producer id by first offset, the oldest first."""

    def __len__(self) -> int:
        return len(self._producers)

    def check(self, header: BatchHeader, verified: bool = False) -> SeenBatch | ErrorCode | None:  # noqa: FBT001, FBT002 - hot
        """Say what a batch is: None for news, the batch that it repeats, or why it is refused.

        `verified`: the coordinator says that the partition is part of the producer's transaction;
        asked for only where the batch would be the first of one. A producer that is not known may
        begin with any sequence: it expired, or retention took its records. Only batches with a
        producer id are asked about.
        """
        producer = self._producers.get(header.producer_id)
        if producer is None:
            return None if not header.attributes & TRANSACTIONAL else self._check_begin(verified)
        if (
            header.base_sequence == producer.next_sequence
            and header.producer_epoch == producer.epoch
            and not header.attributes & TRANSACTIONAL
            and producer.first_offset < 0
        ):
            return None  # what most are
        if header.producer_epoch < producer.epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        is_same_epoch = header.producer_epoch == producer.epoch
        is_next = header.base_sequence == (producer.next_sequence if is_same_epoch else 0)
        repeated = _find(producer.batches, header) if is_same_epoch and not is_next else None
        return repeated or self._refusal(producer, header, is_next, verified)

    def check_own(self, header: BatchHeader) -> ErrorCode | None:
        """Say why a batch of the broker itself is refused: epoch, transaction, never sequence.

        Its transactions are verified.
        """
        producer = self._producers.get(header.producer_id)
        if producer is None:
            is_plain = not header.attributes & TRANSACTIONAL
            return None if is_plain else self._check_begin(verified=True)
        if header.producer_epoch < producer.epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        return self._refusal(producer, header, is_next=True, verified=True)

    def check_marker(
        self, producer_id: int, epoch: int, coordinator_epoch: int, version: int
    ) -> ErrorCode:
        """Say whether a marker may be appended; one that repeats another may.

        `version`: of the transaction. With version 2 the epoch must be above the last one, so that
        a marker that comes late cannot end the transaction after its own.
        """
        producer = self._producers.get(producer_id)
        if producer is None:
            return ErrorCode.NONE
        if epoch < producer.epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if (
            version >= TRANSACTION_VERSION_2
            and epoch == producer.epoch != EPOCH_MAX
            and producer.first_offset >= 0
        ):
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if coordinator_epoch < producer.coordinator_epoch:
            return ErrorCode.TRANSACTION_COORDINATOR_FENCED
        return ErrorCode.NONE

    def is_in_transaction(self, producer_id: int, epoch: int) -> bool:
        """Whether a producer has a transaction open here and goes on in this epoch."""
        producer = self._producers.get(producer_id)
        return producer is not None and producer.first_offset >= 0 and producer.epoch == epoch

    def has_batches(self, producer_id: int) -> bool:
        """Whether a batch of the producer's epoch is known."""
        producer = self._producers.get(producer_id)
        return producer is not None and bool(producer.batches)

    def is_ahead(self, header: BatchHeader) -> bool:
        """Whether a batch comes behind one that is not here, as far as sequences tell.

        A producer of whom nothing is known in its epoch begins at 0.
        """
        producer = self._producers.get(header.producer_id)
        is_known = producer is not None and producer.epoch == header.producer_epoch
        expected = producer.next_sequence if producer is not None and is_known else 0
        return 0 < (header.base_sequence - expected) % SEQUENCE_MODULUS < SEQUENCE_MODULUS // 2

    def epoch_of(self, producer_id: int) -> int:
        """Return the producer's epoch; -1 if it is not known."""
        producer = self._producers.get(producer_id)
        return -1 if producer is None else producer.epoch

    def active(self) -> list[ActiveProducer]:
        """Return all of them, for DescribeProducers."""
        return [
            ActiveProducer(
                key,
                each.epoch,
                each.batches[-1].last_sequence if each.batches else -1,
                each.active_ms,
                each.coordinator_epoch,
                each.first_offset,
            )
            for key, each in self._producers.items()
        ]

    def last_sequences(self) -> dict[int, tuple[Offset, int]]:
        """Return offset of the last data batch (-1: none in its epoch) and epoch, by producer."""
        found = {}
        for key, each in self._producers.items():
            last = each.batches[-1] if each.batches else None
            offset = -1 if last is None else last.base_offset + last.offset_delta
            found[key] = (offset, each.epoch)
        return found

    def record(
        self, header: BatchHeader, base_offset: Offset, now_ms: int, log_append_time: int = -1
    ) -> None:
        """Remember a batch that goes into the log at `base_offset`; no checks are made."""
        last_sequence = header.last_sequence
        seen = SeenBatch(last_sequence, base_offset, header.last_offset_delta, log_append_time)
        producer = self._producers.get(header.producer_id)
        if producer is None:
            producer = self._add(header.producer_id, header.producer_epoch)
        elif header.producer_epoch != producer.epoch:
            producer.begin_epoch(header.producer_epoch)
        batches = producer.batches
        batches.append(seen)
        if len(batches) > BATCHES_KEPT:
            del batches[0]
        producer.next_sequence = sequence_after(last_sequence)
        producer.active_ms = now_ms
        if header.attributes & TRANSACTIONAL and producer.first_offset < 0:
            producer.first_offset = base_offset
            self.open[base_offset] = header.producer_id

    def end_transaction(
        self, producer_id: int, epoch: int, marker: EndTransaction, offset: Offset, now_ms: int
    ) -> CompletedTransaction | None:
        """Take a marker that goes into the log at `offset`; return what it ended, if anything.

        The producer goes on in the marker's epoch. No checks are made.
        """
        producer = self._producers.get(producer_id)
        if producer is None:
            producer = self._add(producer_id, epoch)
        producer.begin_epoch(epoch)
        producer.coordinator_epoch = marker.coordinator_epoch
        producer.active_ms = now_ms
        first_offset, producer.first_offset = producer.first_offset, NO_TRANSACTION
        if first_offset < 0:
            return None
        del self.open[first_offset]
        stable = next(iter(self.open), offset + 1)
        return CompletedTransaction(producer_id, first_offset, offset, stable, marker.committed)

    def expire(self, before_ms: int) -> int:
        """Forget whoever wrote last before `before_ms`; return how many.

        Never one with an open transaction: only its coordinator can end that.
        """
        gone = [
            key
            for key, each in self._producers.items()
            if each.active_ms < before_ms and each.first_offset < 0
        ]
        for key in gone:
            del self._producers[key]
        return len(gone)

    def encode(self) -> bytes:
        """Return the state as bytes: a count, then producers with their batches."""
        parts = [_COUNT.pack(len(self._producers))]
        for key, each in self._producers.items():
            head = (key, each.epoch, each.active_ms, each.coordinator_epoch, each.first_offset)
            parts.append(_PRODUCER.pack(*head, len(each.batches)))
            parts.extend(_BATCH.pack(*batch) for batch in each.batches)
        return b"".join(parts)

    @classmethod
    def decode(cls, data: Buffer, at: int = 0, version: int = 2) -> tuple["Producers", int]:
        """Read `encode()`d state; return it with the place where it ends.

        `version`: 1 knows no transactions. Errors: BufferUnderflow, BadLength, BadValue (two
        transactions of one offset).
        """
        producers = cls()
        head = _PRODUCER_V1 if version == 1 else _PRODUCER
        try:
            (count,) = _COUNT.unpack_from(data, at)
            at += _COUNT.size
            if count * head.size > len(data) - at:
                raise BadLength(f"{count} producers in {len(data) - at} bytes")
            for _ in range(count):
                key, epoch, active_ms, *transaction, kept = head.unpack_from(data, at)
                at += head.size
                batches = [SeenBatch._make(b) for b in _batches(data, at, kept)]
                at += kept * _BATCH.size
                producer = producers._producers[key] = KnownProducer(epoch, active_ms, batches)
                if transaction:
                    producer.coordinator_epoch, producer.first_offset = transaction
        except struct_error:
            raise BufferUnderflow("the bytes end inside the producers") from None
        producers._find_open()
        return producers, at

    def copy(self) -> "Producers":
        """Return the same state, independent of this one."""
        twin = Producers()
        for key, each in self._producers.items():
            other = twin._producers[key] = KnownProducer(
                each.epoch, each.active_ms, [*each.batches]
            )
            other.coordinator_epoch, other.first_offset = each.coordinator_epoch, each.first_offset
        twin.open = dict(self.open)
        return twin

    def _add(self, producer_id: int, epoch: int) -> KnownProducer:
        if len(self._producers) >= PRODUCERS_MAX:
            self._forget_oldest()
        producer = self._producers[producer_id] = KnownProducer(epoch, 0, [])
        return producer

    def _refusal(
        self,
        producer: KnownProducer,
        header: BatchHeader,
        is_next: bool,  # noqa: FBT001 - hot
        verified: bool,  # noqa: FBT001 - hot
    ) -> ErrorCode | None:
        """Say why a batch that is no repeat and of no old epoch is refused; None if it is not."""
        is_open = producer.first_offset >= 0
        transactional = header.attributes & TRANSACTIONAL
        goes_on = is_open and header.producer_epoch == producer.epoch
        if transactional and not goes_on and not verified:
            return ErrorCode.INVALID_TXN_STATE
        if not is_next:
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        if transactional:
            return None if is_open else self._check_begin(verified)
        return ErrorCode.INVALID_TXN_STATE if is_open else None

    def _check_begin(self, verified: bool) -> ErrorCode | None:  # noqa: FBT001
        """Say whether a transaction may begin."""
        if not verified:
            return ErrorCode.INVALID_TXN_STATE
        return ErrorCode.NOT_ENOUGH_REPLICAS if len(self.open) >= TRANSACTIONS_MAX else None

    def _forget_oldest(self) -> None:
        """Make room for a tenth of the limit, so that a flood pays for the search only rarely."""
        idle = [item for item in self._producers.items() if item[1].first_offset < 0]
        ages = sorted((each.active_ms, key) for key, each in idle)
        for _, key in ages[: len(self._producers) // 10 + 1]:
            del self._producers[key]

    def _find_open(self) -> None:
        """Fill `open` from the producers. Errors: BadValue."""
        items = self._producers.items()
        found = sorted((each.first_offset, key) for key, each in items if each.first_offset >= 0)
        self.open = dict(found)
        if len(self.open) != len(found):
            raise BadValue("two transactions begin at one offset")


def _find(batches: list[SeenBatch], header: BatchHeader) -> SeenBatch | None:
    last = header.last_sequence
    for seen in reversed(batches):
        if seen.last_sequence == last and seen.first_sequence == header.base_sequence:
            return seen
    return None


def _batches(data: Buffer, at: int, count: int) -> Iterable[tuple[int, ...]]:
    end = at + count * _BATCH.size
    if end > len(data):
        raise BufferUnderflow("the bytes end inside a producer's batches")
    return _BATCH.iter_unpack(memoryview(data)[at:end])
