"""Idempotent producers of one partition: which batch is new, which is a repeat, which is refused.

Pure. A producer numbers its records per partition; the log keeps the newest batches of each and so
tells a retry from news. State changes only through `record()`, in log order.
Source: reference Kafka 4.2; ProducerStateManager, ProducerAppendInfo.
"""

from collections.abc import Iterable
from struct import Struct
from struct import error as struct_error
from typing import NamedTuple

from protocol.errors import BadLength, BufferUnderflow, ErrorCode
from protocol.ids import Buffer, Offset
from protocol.records.batch import BatchHeader

BATCHES_KEPT = 5
"""As many as a producer may have in flight."""

PRODUCERS_MAX = 100_000
"""Producers of one partition; beyond it those that wrote longest ago are forgotten."""

_SEQUENCE_MODULUS = 1 << 31
_COUNT = Struct(">I")
_PRODUCER = Struct(">qhqB")  # id, epoch, last active, number of batches
_BATCH = Struct(">iqiq")  # last sequence, base offset, offset delta, log append time


class SeenBatch(NamedTuple):
    """A batch that a producer wrote before."""

    last_sequence: int
    base_offset: Offset
    offset_delta: int
    """Last offset minus base offset."""
    log_append_time: int
    """-1 if the topic keeps the client's time."""

    @property
    def first_sequence(self) -> int:
        """Sequence of its first record; the one after 2^31-1 is 0."""
        return (self.last_sequence - self.offset_delta) % _SEQUENCE_MODULUS


class _Producer:
    """One producer id: its epoch and its newest batches, oldest first."""

    __slots__ = ("active_ms", "batches", "epoch", "next_sequence")

    def __init__(self, epoch: int, active_ms: int, batches: list[SeenBatch]) -> None:
        self.epoch = epoch
        self.active_ms = active_ms
        self.batches = batches
        self.next_sequence = _after(batches[-1].last_sequence) if batches else 0


class Producers:
    """All producers that wrote to a partition lately.

    Shape: at most `BATCHES_KEPT` batches each and `PRODUCERS_MAX` producers.
    """

    __slots__ = ("_producers",)

    def __init__(self) -> None:
        self._producers: dict[int, _Producer] = {}

    def __len__(self) -> int:
        return len(self._producers)

    def check(self, header: BatchHeader) -> SeenBatch | ErrorCode | None:
        """Say what a batch is: None for news, the batch that it repeats, or why it is refused.

        A producer that is not known may begin with any sequence: it expired, or retention took
        its records. Only batches with a producer id are asked about.
        """
        producer = self._producers.get(header.producer_id)
        if producer is None:
            return None
        if header.producer_epoch == producer.epoch:
            if header.base_sequence == producer.next_sequence:
                return None
            return _find(producer.batches, header) or ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        if header.producer_epoch < producer.epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        return None if header.base_sequence == 0 else ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER

    def record(
        self, header: BatchHeader, base_offset: Offset, now_ms: int, log_append_time: int = -1
    ) -> None:
        """Remember a batch that goes into the log at `base_offset`; no checks are made."""
        last_sequence = header.last_sequence
        seen = SeenBatch(last_sequence, base_offset, header.last_offset_delta, log_append_time)
        producer = self._producers.get(header.producer_id)
        if producer is None:
            if len(self._producers) >= PRODUCERS_MAX:
                self._forget_oldest()
            self._producers[header.producer_id] = _Producer(header.producer_epoch, now_ms, [seen])
            return
        if header.producer_epoch != producer.epoch:
            producer.epoch = header.producer_epoch
            producer.batches = []
        batches = producer.batches
        batches.append(seen)
        if len(batches) > BATCHES_KEPT:
            del batches[0]
        producer.next_sequence = _after(last_sequence)
        producer.active_ms = now_ms

    def expire(self, before_ms: int) -> int:
        """Forget whoever wrote last before `before_ms`; return how many."""
        gone = [key for key, producer in self._producers.items() if producer.active_ms < before_ms]
        for key in gone:
            del self._producers[key]
        return len(gone)

    def encode(self) -> bytes:
        """Return the state as bytes: a count, then producers with their batches."""
        parts = [_COUNT.pack(len(self._producers))]
        for key, producer in self._producers.items():
            batches = producer.batches
            parts.append(_PRODUCER.pack(key, producer.epoch, producer.active_ms, len(batches)))
            parts.extend(_BATCH.pack(*batch) for batch in batches)
        return b"".join(parts)

    @classmethod
    def decode(cls, data: Buffer, at: int = 0) -> tuple["Producers", int]:
        """Read `encode()`d state; return it with the place where it ends.

        Errors: BufferUnderflow, BadLength.
        """
        producers = cls()
        try:
            (count,) = _COUNT.unpack_from(data, at)
            at += _COUNT.size
            if count * _PRODUCER.size > len(data) - at:
                raise BadLength(f"{count} producers in {len(data) - at} bytes")
            for _ in range(count):
                key, epoch, active_ms, kept = _PRODUCER.unpack_from(data, at)
                at += _PRODUCER.size
                batches = [SeenBatch._make(b) for b in _batches(data, at, kept)]
                at += kept * _BATCH.size
                producers._producers[key] = _Producer(epoch, active_ms, batches)
        except struct_error:
            raise BufferUnderflow("the bytes end inside the producers") from None
        return producers, at

    def copy(self) -> "Producers":
        """Return the same state, independent of this one."""
        twin = Producers()
        for key, each in self._producers.items():
            twin._producers[key] = _Producer(each.epoch, each.active_ms, list(each.batches))
        return twin

    def _forget_oldest(self) -> None:
        """Make room for a tenth of the limit, so that a flood pays for the search only rarely."""
        ages = sorted((each.active_ms, key) for key, each in self._producers.items())
        for _, key in ages[: len(ages) // 10 + 1]:
            del self._producers[key]


def _after(sequence: int) -> int:
    return (sequence + 1) % _SEQUENCE_MODULUS


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
