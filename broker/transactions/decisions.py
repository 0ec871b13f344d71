"""What a request does to a transactional id: its next value, or the error. Pure.

Nothing here looks at the clock, or at changes that are under way: the shard refuses those first
where Kafka does. `ErrorCode.NONE` means that all is done already, and nothing has to be written.
Source: TransactionCoordinator (4.3.1), method by method; reference/kafka.md 4.3, 4.4, 4.6.
"""

from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple, TypeAlias

from tailrace.broker.transactions.metadata import (
    EPOCH_MAX,
    NO_EPOCH,
    NO_PRODUCER_ID,
    PREPARED,
    VERSION_2,
    TransactionMetadata,
    TransactionState,
    is_exhausted,
)
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.ids import TopicPartition

_S = TransactionState

Decision: TypeAlias = TransactionMetadata | ErrorCode

NewProducerId: TypeAlias = Callable[[], int]
"""Gives an id that nobody ever had."""


class Producer(NamedTuple):
    """Who writes: a producer id in one of its lives."""

    producer_id: int
    epoch: int


def decide_init(
    current: TransactionMetadata,
    timeout_ms: int,
    expected: Producer | None,
    new_producer_id: NewProducerId,
    now_ms: int,
) -> Decision:
    """InitProducerId: `expected` is what the producer says it is; None for one that begins.

    An open transaction is aborted in the name of the next epoch; the producer asks again later.
    Unlike Kafka, an older epoch is refused before it aborts what a newer one has open.
    """
    if expected is not None and not _may_continue(current, expected):
        return ErrorCode.PRODUCER_FENCED
    if current.state is _S.ONGOING:
        if expected is not None and expected.epoch < current.producer_epoch:
            return ErrorCode.PRODUCER_FENCED
        return current.fence(now_ms)
    epoch = None if expected is None else expected.epoch
    if current.has_no_epoch_for(epoch):
        return current.rotate_producer_id(new_producer_id(), timeout_ms, epoch, now_ms)
    return current.increment_epoch(timeout_ms, epoch, now_ms)


def _may_continue(current: TransactionMetadata, expected: Producer) -> bool:
    """Whether the producer id is right: the newest, or its exhausted predecessor's last request."""
    if current.producer_epoch == NO_EPOCH or expected.producer_id == current.producer_id:
        return True
    is_previous = expected.producer_id == current.previous_producer_id
    return is_previous and is_exhausted(expected.epoch)


def check_producer(current: TransactionMetadata, producer: Producer) -> ErrorCode:
    """Return NONE for the producer that has the transactional id now."""
    if producer.producer_id != current.producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if producer.epoch != current.producer_epoch:
        return ErrorCode.PRODUCER_FENCED
    return ErrorCode.NONE


def decide_add(
    current: TransactionMetadata,
    producer: Producer,
    partitions: frozenset[TopicPartition],
    client_version: int,
    now_ms: int,
) -> Decision:
    """AddPartitionsToTxn: take partitions in; the first ones begin the transaction."""
    code = check_producer(current, producer)
    if code is not ErrorCode.NONE:
        return code
    if current.state in PREPARED:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    if current.state is _S.ONGOING and partitions <= current.partitions:
        return ErrorCode.NONE
    return current.add_partitions(partitions, client_version, now_ms)


def verify(
    current: TransactionMetadata, producer: Producer, partitions: Collection[TopicPartition]
) -> Mapping[TopicPartition, ErrorCode]:
    """Say of each partition whether it is in the producer's open transaction."""
    code = check_producer(current, producer)
    if code is ErrorCode.NONE and current.state in PREPARED:
        code = ErrorCode.CONCURRENT_TRANSACTIONS
    if code is not ErrorCode.NONE:
        return dict.fromkeys(partitions, code)
    missing = ErrorCode.TRANSACTION_ABORTABLE
    return {each: code if each in current.partitions else missing for each in partitions}


def decide_end(
    current: TransactionMetadata, producer: Producer, *, committed: bool, now_ms: int
) -> Decision:
    """EndTxn of a client that speaks no version 2 (v0-4)."""
    code = check_producer(current, producer)
    if code is not ErrorCode.NONE:
        return code
    if current.state is _S.ONGOING:
        outcome = _S.PREPARE_COMMIT if committed else _S.PREPARE_ABORT
        return current.prepare(outcome, 0, NO_PRODUCER_ID, now_ms)
    return _ended_already(current.state, committed=committed)


def decide_end_version_2(
    current: TransactionMetadata,
    producer: Producer,
    new_producer_id: NewProducerId,
    *,
    committed: bool,
    now_ms: int,
) -> Decision:
    """EndTxn of a client that speaks version 2 (v5): the epoch rises, and tells a retry by that.

    An abort may come without a transaction: its client does not know whether one has begun.
    """
    is_retry = _is_retry(current, producer)
    if not is_retry:
        code = check_producer(current, producer)
        if code is not ErrorCode.NONE:
            return code
        if current.state in PREPARED:
            return ErrorCode.PRODUCER_FENCED  # whoever has this epoch has not been told of it yet
    if is_retry:
        return _ended_already(current.state, committed=committed)
    if committed and current.state is not _S.ONGOING:
        return ErrorCode.INVALID_TXN_STATE
    outcome = _S.PREPARE_COMMIT if committed else _S.PREPARE_ABORT
    next_producer_id = new_producer_id() if current.is_exhausted else NO_PRODUCER_ID
    return current.prepare(outcome, VERSION_2, next_producer_id, now_ms)


def _is_retry(current: TransactionMetadata, producer: Producer) -> bool:
    """Whether the end that the producer asks for is the one that was decided last."""
    if current.state in (_S.ONGOING, _S.EMPTY) or not current.raises_epochs:
        return False
    if current.state not in PREPARED and current.producer_epoch == EPOCH_MAX:
        return False  # a fence ended it, and its epoch may be nobody's
    if producer.producer_id == current.producer_id:
        return current.producer_epoch == producer.epoch + 1
    is_before_the_turn = current.state not in PREPARED and current.producer_epoch == 0
    is_last = is_exhausted(producer.epoch) and producer.producer_id == current.previous_producer_id
    return is_before_the_turn and is_last


def _ended_already(state: TransactionState, *, committed: bool) -> ErrorCode:
    """Answer an end where nothing is open: done, being done, or done otherwise."""
    done = _S.COMPLETE_COMMIT if committed else _S.COMPLETE_ABORT
    doing = _S.PREPARE_COMMIT if committed else _S.PREPARE_ABORT
    if state is done:
        return ErrorCode.NONE
    return ErrorCode.CONCURRENT_TRANSACTIONS if state is doing else ErrorCode.INVALID_TXN_STATE
