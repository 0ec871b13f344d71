"""What is known of one producer in one partition: its newest batches, and its transaction. Pure."""

from typing import NamedTuple

from protocol.ids import Offset

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


class KnownProducer:
    """One producer id: its epoch, its newest batches, oldest first, and its transaction."""

    __slots__ = (
        "active_ms",
        "batches",
        "coordinator_epoch",
        "epoch",
        "first_offset",
        "next_sequence",
    )

    def __init__(self, epoch: int, active_ms: int, batches: list[SeenBatch]) -> None:
        self.epoch = epoch
        self.active_ms = active_ms
        self.batches = batches
        self.next_sequence = sequence_after(batches[-1].last_sequence) if batches else 0
        self.coordinator_epoch = -1
        self.first_offset: Offset = NO_TRANSACTION

    def begin_epoch(self, epoch: int) -> None:
        """Go on in an epoch; a new one begins at sequence 0."""
        if epoch != self.epoch:
            self.epoch = epoch
            self.batches = []
            self.next_sequence = 0


def sequence_after(sequence: int) -> int:
    """Return the next record's sequence; after 2^31-1 comes 0."""
    return (sequence + 1) % SEQUENCE_MODULUS
