"""The producers of one partition: which batch is new, which is a repeat, which is refused.

Pure. A producer numbers its records per partition; the log keeps the newest batches of each and so
tells a retry from news. It also keeps where each producer's open transaction begins. State changes
only through `record()` and `end_transaction()`, in log order.
Source: reference Kafka 4.2; ProducerStateManager, ProducerAppendInfo (Kafka 4.3.1).
"""

from collections.abc import Iterable, Iterator
from itertools import islice
from struct import Struct
from struct import error as struct_error
from typing import cast

from tailrace.broker.partition.producer_state import (
    BATCH_SIZE,
    BATCHES_AT,
    FIRST_OFFSET,
    FIRST_OFFSET_AT,
    HEAD_SIZE,
    NO_TRANSACTION,
    SEQUENCE_MODULUS,
    ActiveProducer,
    CompletedTransaction,
    Kept,
    KnownProducer,
    SeenBatch,
    active_ms_of,
    first_offset_of,
    known,
    last_offset_and_epoch,
    sequence_after,
)
from tailrace.protocol.errors import BadLength, BadValue, BufferUnderflow, ErrorCode
from tailrace.protocol.ids import Buffer, Offset
from tailrace.protocol.records.batch import TRANSACTIONAL, BatchHeader
from tailrace.protocol.records.control import EndTransaction

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
_HEAD_V1 = Struct(">qhqB")
_ID = Struct(">q")
_NOBODY = FIRST_OFFSET.pack(NO_TRANSACTION)

LOOSE_MAX = 2000
"""Producers of a table that are not as they are written down: what a snapshot has to encode in one
go, 5 ms. Beyond it each batch encodes another producer too."""


class Producers:
    """All producers that wrote to a partition lately.

    Shape: at most `BATCHES_KEPT` batches each and `PRODUCERS_MAX` producers.
    Cost: 100,000 of them are read in 50 ms, written in 15 and copied in 2: most are kept as they
    are written down, and what is known of one is never changed but replaced.
    """

    __slots__ = ("_last", "_loose", "_producers", "open")

    def __init__(self) -> None:
        self._producers: dict[int, Kept] = {}
        """Who wrote longest ago first."""
        self._loose: dict[int, None] = {}
        """Those that are not as they are written down, in the same order."""
        self._last: int | None = None
        """Who wrote last, and is not as it is written down."""
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
        if isinstance(producer, bytes):
            producer = known(producer)
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
        producer = self._get(header.producer_id)
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
        producer = self._get(producer_id)
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
        producer = self._get(producer_id)
        return producer is not None and producer.first_offset >= 0 and producer.epoch == epoch

    def has_batches(self, producer_id: int) -> bool:
        """Whether a batch of the producer's epoch is known."""
        producer = self._get(producer_id)
        return producer is not None and bool(producer.batches)

    def is_ahead(self, header: BatchHeader) -> bool:
        """Whether a batch comes behind one that is not here, as far as sequences tell.

        A producer of whom nothing is known in its epoch begins at 0.
        """
        producer = self._get(header.producer_id)
        is_known = producer is not None and producer.epoch == header.producer_epoch
        expected = producer.next_sequence if producer is not None and is_known else 0
        return 0 < (header.base_sequence - expected) % SEQUENCE_MODULUS < SEQUENCE_MODULUS // 2

    def epoch_of(self, producer_id: int) -> int:
        """Return the producer's epoch; -1 if it is not known."""
        producer = self._get(producer_id)
        return -1 if producer is None else producer.epoch

    def active(self) -> Iterator[ActiveProducer]:
        """Return all that there are now, for DescribeProducers. Cost: 2 us for each."""
        return (_shown(key, known(kept)) for key, kept in list(self._producers.items()))

    def last_sequences(self) -> dict[int, tuple[Offset, int]]:
        """Return offset of the last data batch (-1: none in its epoch) and epoch, by producer."""
        return {key: last_offset_and_epoch(kept) for key, kept in self._producers.items()}

    def record(
        self, header: BatchHeader, base_offset: Offset, now_ms: int, log_append_time: int = -1
    ) -> None:
        """Remember a batch that goes into the log at `base_offset`; no checks are made."""
        key, last_sequence = header.producer_id, header.last_sequence
        seen = SeenBatch(last_sequence, base_offset, header.last_offset_delta, log_append_time)
        before = self._producers.get(key)
        batches: tuple[SeenBatch, ...] = (seen,)
        coordinator_epoch, first_offset = -1, NO_TRANSACTION
        if before is not None:
            if isinstance(before, bytes):
                before = known(before)
            coordinator_epoch, first_offset = before.coordinator_epoch, before.first_offset
            if before.epoch == header.producer_epoch:
                batches = (*before.batches[1 - BATCHES_KEPT :], seen)
        if header.attributes & TRANSACTIONAL and first_offset < 0:
            first_offset = base_offset
            self.open[base_offset] = key
        after = KnownProducer(
            header.producer_epoch,
            now_ms,
            batches,
            sequence_after(last_sequence),
            coordinator_epoch,
            first_offset,
        )
        if key == self._last:
            self._producers[key] = after
        else:
            self._put(key, after)

    def end_transaction(
        self, producer_id: int, epoch: int, marker: EndTransaction, offset: Offset, now_ms: int
    ) -> CompletedTransaction | None:
        """Take a marker that goes into the log at `offset`; return what it ended, if anything.

        The producer goes on in the marker's epoch. No checks are made.
        """
        before = self._get(producer_id)
        batches: tuple[SeenBatch, ...] = ()
        next_sequence, first_offset = 0, NO_TRANSACTION
        if before is not None:
            first_offset = before.first_offset
            if before.epoch == epoch:
                batches, next_sequence = before.batches, before.next_sequence
        after = KnownProducer(epoch, now_ms, batches, next_sequence, marker.coordinator_epoch)
        self._put(producer_id, after)
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
            if active_ms_of(each) < before_ms and first_offset_of(each) < 0
        ]
        self._forget(gone)
        return len(gone)

    def encode(self) -> bytes:
        """Return the state as bytes: a count, then producers with their batches.

        Cost: see the class; what was written since it was encoded last is encoded now.
        """
        for key in list(self._loose):
            self._write_down(key)
        written = cast("dict[int, bytes]", self._producers)  # all of them by now
        return b"".join([_COUNT.pack(len(written)), *written.values()])

    @classmethod
    def decode(cls, data: Buffer, at: int = 0, version: int = 2) -> tuple["Producers", int]:
        """Read `encode()`d state; return it with the place where it ends.

        `version`: 1 knows no transactions. Errors: BufferUnderflow, BadLength, BadValue (two
        transactions of one offset).
        """
        producers = cls()
        view = bytes(data)  # what is cut out of it is bytes, and no view that has to be copied
        try:
            (count,) = _COUNT.unpack_from(view, at)
            at += _COUNT.size
            head_size = _HEAD_V1.size if version == 1 else HEAD_SIZE
            if count * head_size > len(view) - at:
                raise BadLength(f"{count} producers in {len(view) - at} bytes")
            read = producers._read_v1 if version == 1 else producers._read
            at = read(view, at, count)
        except (struct_error, IndexError):
            raise BufferUnderflow("the bytes end inside the producers") from None
        return producers, at

    def _read(self, data: bytes, at: int, count: int) -> int:
        """Take producers as they are written down; return where they end. Errors: BadValue."""
        kept, unpack = self._producers, _ID.unpack_from
        begun = []
        for _ in range(count):
            start = at
            at += HEAD_SIZE + BATCH_SIZE * data[start + BATCHES_AT]
            (key,) = unpack(data, start)
            kept[key] = data[start:at]
            if data[start + FIRST_OFFSET_AT : start + BATCHES_AT] != _NOBODY:
                begun.append(key)
        if at > len(data):
            raise BufferUnderflow("the bytes end inside a producer's batches")
        self._find_open(begun)
        return at

    def _read_v1(self, data: bytes, at: int, count: int) -> int:
        """Take producers as they were written before there were transactions."""
        for _ in range(count):
            key, epoch, active_ms, batches = _HEAD_V1.unpack_from(data, at)
            start = at + _HEAD_V1.size
            at = start + BATCH_SIZE * batches
            if at > len(data):
                raise BufferUnderflow("the bytes end inside a producer's batches")
            head = KnownProducer(epoch, active_ms, (), 0).encode(key)[:BATCHES_AT]
            self._producers[key] = head + bytes((batches,)) + data[start:at]
        return at

    def copy(self) -> "Producers":
        """Return the same state, independent of this one. Cost: see the class."""
        twin = Producers()
        twin._producers = self._producers.copy()
        twin._loose = self._loose.copy()
        twin.open = self.open.copy()
        return twin

    def _get(self, producer_id: int) -> KnownProducer | None:
        kept = self._producers.get(producer_id)
        return None if kept is None else known(kept)

    def _put(self, key: int, after: KnownProducer) -> None:
        """Have `after` be what is known of a producer, which wrote last of all."""
        producers, loose = self._producers, self._loose
        if producers.pop(key, None) is None and len(producers) >= PRODUCERS_MAX:
            self._forget_oldest()
        producers[key] = after
        self._last = key
        loose.pop(key, None)
        loose[key] = None
        if len(loose) > LOOSE_MAX:
            self._write_down(next(iter(loose)))

    def _write_down(self, key: int) -> None:
        kept = self._producers[key]
        if isinstance(kept, KnownProducer):
            self._producers[key] = kept.encode(key)
        del self._loose[key]
        if key == self._last:
            self._last = None

    def _forget(self, keys: Iterable[int]) -> None:
        self._last = None
        for key in keys:
            del self._producers[key]
            self._loose.pop(key, None)

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
        in_transaction = set(self.open.values())
        idle = (key for key in self._producers if key not in in_transaction)
        self._forget(list(islice(idle, len(self._producers) // 10 + 1)))

    def _find_open(self, begun: Iterable[int]) -> None:
        """Fill `open` from the producers that may have begun a transaction. Errors: BadValue."""
        firsts = [(first_offset_of(self._producers[key]), key) for key in begun]
        found = sorted([item for item in firsts if item[0] >= 0])
        self.open = dict(found)
        if len(self.open) != len(found):
            raise BadValue("two transactions begin at one offset")


def _shown(key: int, each: KnownProducer) -> ActiveProducer:
    last = each.batches[-1].last_sequence if each.batches else -1
    return ActiveProducer(
        key, each.epoch, last, each.active_ms, each.coordinator_epoch, each.first_offset
    )


def _find(batches: tuple[SeenBatch, ...], header: BatchHeader) -> SeenBatch | None:
    last = header.last_sequence
    for seen in reversed(batches):
        if seen.last_sequence == last and seen.first_sequence == header.base_sequence:
            return seen
    return None
