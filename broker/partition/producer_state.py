"""What is known of one producer in one partition: its newest batches, and its transaction. Pure."""

from struct import Struct
from typing import Final, NamedTuple, TypeAlias

import msgspec

from tailrace.protocol.ids import Offset

NO_TRANSACTION = -1
SEQUENCE_MODULUS = 1 << 31


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
        return (self.last_sequence - self.offset_delta) % SEQUENCE_MODULUS


class CompletedTransaction(NamedTuple):
    """What a marker ended."""

    producer_id: int
    first_offset: Offset
    last_offset: Offset
    """Of the marker."""
    last_stable_offset: Offset
    """First offset of the oldest transaction that is still open; if none is, behind the marker."""
    committed: bool


class ActiveProducer(NamedTuple):
    """A producer, as DescribeProducers shows it."""

    producer_id: int
    epoch: int
    last_sequence: int
    """-1: none in this epoch."""
    active_ms: int
    coordinator_epoch: int
    """-1: it never ended a transaction here."""
    first_offset: Offset
    """Where its open transaction begins; NO_TRANSACTION."""


class KnownProducer(msgspec.Struct, gc=False):
    """One producer id: its epoch, its newest batches, oldest first, and its transaction.

    Never changed once it is in a table: tables that were copied share it.
    """

    epoch: int
    active_ms: int
    batches: tuple[SeenBatch, ...]
    next_sequence: int
    coordinator_epoch: int = -1
    first_offset: Offset = NO_TRANSACTION

    def encode(self, producer_id: int) -> bytes:
        """Return it as it is written down."""
        return _HEAD.pack(
            producer_id,
            self.epoch,
            self.active_ms,
            self.coordinator_epoch,
            self.first_offset,
            len(self.batches),
        ) + b"".join([_BATCH.pack(*batch) for batch in self.batches])


Kept: TypeAlias = KnownProducer | bytes
"""A producer in a table: what is known, or the same as it is written down."""

HEAD_SIZE: Final = 31
BATCH_SIZE: Final = 24
_HEAD: Final = Struct(">qhqiqB")  # id, epoch, active, coordinator epoch, transaction, batches
_BATCH: Final = Struct(">iqiq")  # last sequence, base offset, offset delta, log append time
_EPOCH: Final = Struct(">h")
_EPOCH_AT: Final = 8
_ACTIVE: Final = Struct(">q")
_ACTIVE_AT: Final = 10
FIRST_OFFSET: Final = Struct(">q")
FIRST_OFFSET_AT: Final = 22
BATCHES_AT: Final = 30
assert (_HEAD.size, _BATCH.size) == (HEAD_SIZE, BATCH_SIZE)


def known(kept: Kept) -> KnownProducer:
    """Return what is known of a producer. Cost: 2 us if it is as it is written down."""
    if isinstance(kept, KnownProducer):
        return kept
    _, epoch, active_ms, coordinator_epoch, first_offset, _ = _HEAD.unpack_from(kept)
    batches = tuple([SeenBatch._make(each) for each in _BATCH.iter_unpack(kept[HEAD_SIZE:])])
    next_sequence = sequence_after(batches[-1].last_sequence) if batches else 0
    return KnownProducer(epoch, active_ms, batches, next_sequence, coordinator_epoch, first_offset)


def active_ms_of(kept: Kept) -> int:
    """Return when a producer wrote last."""
    if isinstance(kept, KnownProducer):
        return kept.active_ms
    active_ms: int = _ACTIVE.unpack_from(kept, _ACTIVE_AT)[0]
    return active_ms


def first_offset_of(kept: Kept) -> Offset:
    """Return where a producer's open transaction begins; NO_TRANSACTION."""
    if isinstance(kept, KnownProducer):
        return kept.first_offset
    first_offset: Offset = FIRST_OFFSET.unpack_from(kept, FIRST_OFFSET_AT)[0]
    return first_offset


def last_offset_and_epoch(kept: Kept) -> tuple[Offset, int]:
    """Return the last offset that a producer wrote in its epoch, -1 if none; and the epoch."""
    if isinstance(kept, KnownProducer):
        last = kept.batches[-1] if kept.batches else None
        return -1 if last is None else last.base_offset + last.offset_delta, kept.epoch
    (epoch,) = _EPOCH.unpack_from(kept, _EPOCH_AT)
    if len(kept) == HEAD_SIZE:
        return -1, epoch
    _, base_offset, offset_delta, _ = _BATCH.unpack_from(kept, len(kept) - BATCH_SIZE)
    return base_offset + offset_delta, epoch


def sequence_after(sequence: int) -> int:
    """Return the next record's sequence; after 2^31-1 comes 0."""
    return (sequence + 1) % SEQUENCE_MODULUS
