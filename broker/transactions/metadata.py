"""One transactional id as it is stored, and each change that it may go through. Pure.

A change returns the whole next value; it holds once that value is on the stream. `None` stands for
no expected epoch. Epochs rise by one up to 32,766, which is the last one that a producer sees; a
marker may carry 32,767. Source: TransactionMetadata, TransactionState (4.3.1).
"""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from enum import IntEnum
from types import MappingProxyType
from typing import Final

from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.ids import TopicPartition

NO_PRODUCER_ID: Final = -1
NO_EPOCH: Final = -1
EPOCH_MAX: Final = 0x7FFF
VERSION_2: Final = 2
"""Transaction version (KIP-890) with which each end of a transaction raises the epoch."""


class TransactionState(IntEnum):
    """The states by the numbers that records have."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def title(self) -> str:
        """The name that tools show: CompleteCommit."""
        return "".join(part.capitalize() for part in self.name.split("_"))


_S = TransactionState

PREPARED: Final = frozenset({_S.PREPARE_COMMIT, _S.PREPARE_ABORT})
"""The outcome is decided; markers are being written."""

AT_REST: Final = frozenset({_S.EMPTY, _S.COMPLETE_COMMIT, _S.COMPLETE_ABORT})
"""No transaction is open: the id may expire."""

ALLOWED_BEFORE: Final[Mapping[TransactionState, AbstractSet[TransactionState]]] = MappingProxyType(
    {
        _S.EMPTY: AT_REST,
        _S.ONGOING: AT_REST | {_S.ONGOING},
        _S.PREPARE_COMMIT: frozenset({_S.ONGOING}),
        _S.PREPARE_ABORT: AT_REST | {_S.ONGOING},
        _S.COMPLETE_COMMIT: frozenset({_S.PREPARE_COMMIT}),
        _S.COMPLETE_ABORT: frozenset({_S.PREPARE_ABORT}),
        _S.DEAD: AT_REST,
    }
)
"""From where each state is entered. Kafka's PrepareEpochFence is never stored, and never held here:
fencing is PrepareAbort with the next epoch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionMetadata:
    """A transactional id. Times are the wall clock's, in ms; -1 where there is none."""

    transactional_id: str
    producer_id: int
    producer_epoch: int = NO_EPOCH
    previous_producer_id: int = NO_PRODUCER_ID
    """The producer id before the last start or end of a transaction; another one after a change."""
    next_producer_id: int = NO_PRODUCER_ID
    """The id that takes over when the transaction is complete, because the epochs are used up."""
    last_producer_epoch: int = NO_EPOCH
    """What a producer had before its epoch was raised at its own wish. Not stored."""
    timeout_ms: int
    state: TransactionState = TransactionState.EMPTY
    partitions: frozenset[TopicPartition] = frozenset()
    start_ms: int = -1
    last_update_ms: int
    client_version: int = 0
    """Transaction version that the producer speaks: 0 or 2."""

    @property
    def raises_epochs(self) -> bool:
        """Whether the end of a transaction raises the epoch (version 2)."""
        return self.client_version >= VERSION_2

    @property
    def is_exhausted(self) -> bool:
        """Whether the producer id has no epoch left to give."""
        return is_exhausted(self.producer_epoch)

    def has_no_epoch_for(self, expected_epoch: int | None) -> bool:
        """Whether who begins anew, as the producer of that epoch, needs another producer id.

        At 32,767, where a fence got it, that is also who had the last epoch before the fence.
        """
        known = {None, self.producer_epoch}
        if self.producer_epoch == EPOCH_MAX:
            known.add(self.last_producer_epoch)
        return self.is_exhausted and expected_epoch in known

    def increment_epoch(
        self, timeout_ms: int, expected_epoch: int | None, now_ms: int
    ) -> "TransactionMetadata | ErrorCode":
        """Begin anew: with the next epoch, or with the same one for a request that is repeated."""
        bumped = self.producer_epoch + 1
        if expected_epoch is None:
            epoch, last = bumped, NO_EPOCH
        elif self.producer_epoch in (NO_EPOCH, expected_epoch):
            epoch, last = bumped, self.producer_epoch
        elif expected_epoch == self.last_producer_epoch:
            epoch, last = self.producer_epoch, self.last_producer_epoch
        else:
            return ErrorCode.PRODUCER_FENCED
        return self._begin(self.producer_id, epoch, last, timeout_ms, now_ms)

    def rotate_producer_id(
        self, producer_id: int, timeout_ms: int, expected_epoch: int | None, now_ms: int
    ) -> "TransactionMetadata":
        """Begin anew with another producer id: the epochs of this one are used up."""
        last = NO_EPOCH if expected_epoch is None else expected_epoch
        return self._begin(producer_id, 0, last, timeout_ms, now_ms)

    def _begin(
        self, producer_id: int, epoch: int, last: int, timeout_ms: int, now_ms: int
    ) -> "TransactionMetadata":
        return self._to(
            _S.EMPTY,
            now_ms,
            producer_id=producer_id,
            previous_producer_id=self.producer_id,
            producer_epoch=epoch,
            last_producer_epoch=last,
            timeout_ms=timeout_ms,
            partitions=frozenset(),
            start_ms=-1,
        )

    def add_partitions(
        self, partitions: AbstractSet[TopicPartition], client_version: int, now_ms: int
    ) -> "TransactionMetadata":
        """Take partitions into the transaction; the first ones begin it."""
        return self._to(
            _S.ONGOING,
            now_ms,
            partitions=self.partitions | partitions,
            start_ms=self.start_ms if self.state is _S.ONGOING else now_ms,
            client_version=client_version,
        )

    def prepare(
        self, outcome: TransactionState, client_version: int, next_producer_id: int, now_ms: int
    ) -> "TransactionMetadata":
        """Decide the outcome; with version 2 the epoch rises, also if nothing was ever added."""
        epoch, last = self.producer_epoch, self.last_producer_epoch
        if client_version >= VERSION_2:
            epoch, last = min(epoch + 1, EPOCH_MAX), epoch
        return self._to(
            outcome,
            now_ms,
            producer_epoch=epoch,
            last_producer_epoch=last,
            next_producer_id=next_producer_id,
            start_ms=self.start_ms if self.state is _S.ONGOING else now_ms,
            client_version=client_version,
        )

    def fence(self, now_ms: int) -> "TransactionMetadata":
        """Abort what is open in the name of the next epoch: this one's producer is shut out.

        The broker ends it and not a client, so by version 2, whichever the client speaks.
        """
        return self.prepare(_S.PREPARE_ABORT, VERSION_2, NO_PRODUCER_ID, now_ms)

    def complete(self, now_ms: int) -> "TransactionMetadata":
        """End the transaction: every marker is written."""
        state = _S.COMPLETE_COMMIT if self.state is _S.PREPARE_COMMIT else _S.COMPLETE_ABORT
        producer_id, epoch, previous = (
            self.producer_id,
            self.producer_epoch,
            self.previous_producer_id,
        )
        if self.raises_epochs:
            previous = self.producer_id
            if self.next_producer_id != NO_PRODUCER_ID:
                producer_id, epoch = self.next_producer_id, 0
        return self._to(
            state,
            now_ms,
            producer_id=producer_id,
            producer_epoch=epoch,
            previous_producer_id=previous,
            next_producer_id=NO_PRODUCER_ID,
            partitions=frozenset(),
        )

    def die(self) -> "TransactionMetadata":
        """Expire."""
        return self._to(_S.DEAD, self.last_update_ms)

    def _to(self, state: TransactionState, now_ms: int, **changes: object) -> "TransactionMetadata":
        if self.state not in ALLOWED_BEFORE[state]:
            raise AssertionError(f"{self.transactional_id}: {self.state.title} -> {state.title}")
        return replace(self, state=state, last_update_ms=now_ms, **changes)  # type: ignore[arg-type]


def is_exhausted(epoch: int) -> bool:
    """Return whether `epoch` is the last one that a producer may have."""
    return epoch >= EPOCH_MAX - 1
