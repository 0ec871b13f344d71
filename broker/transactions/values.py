"""What the transaction state machine holds, is asked, and asks for, as plain values. Pure."""

from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from tailrace.broker.replicated.effects import Ticket
from tailrace.broker.transactions.decisions import Producer
from tailrace.broker.transactions.metadata import PREPARED, TransactionMetadata
from tailrace.protocol.ids import TopicPartition


class Markers(NamedTuple):
    """The outcome of a transaction, to be written to each of its partitions."""

    transactional_id: str
    producer: Producer
    committed: bool
    partitions: frozenset[TopicPartition]
    transaction_version: int


class Marker(NamedTuple):
    """What ends a transaction in a partition, as `PartitionLog.append_marker` takes it."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    committed: bool
    transaction_version: int


class Stored(NamedTuple):
    """A transactional id's new value is on the stream."""

    metadata: TransactionMetadata


class Expired(NamedTuple):
    """Tombstones of transactional ids are on the stream."""

    transactional_ids: tuple[str, ...]


Then: TypeAlias = Stored | Expired


class Add(NamedTuple):
    """Partitions to take into a transaction, on behalf of a request that may wait."""

    transactional_id: str
    producer: Producer
    partitions: frozenset[TopicPartition]
    client_version: int
    ticket: Ticket
    wait_until_ms: int
    """Until when it waits for an id that is busy. Unit: monotonic ms."""


@dataclass(slots=True)
class Transaction:
    """One transactional id: what is stored, and what is on its way."""

    current: TransactionMetadata
    pending: TransactionMetadata | None = None
    waiting: list[Add] = field(default_factory=list)

    @property
    def is_busy(self) -> bool:
        """Whether a change is under way, or markers are."""
        return self.pending is not None or self.current.state in PREPARED
