"""Each change of a transactional id, and each pair of states. Source: TransactionMetadataTest."""

from dataclasses import replace
from itertools import product

import pytest

from tailrace.broker.transactions.metadata import (
    ALLOWED_BEFORE,
    EPOCH_MAX,
    NO_EPOCH,
    NO_PRODUCER_ID,
    TransactionMetadata,
    TransactionState,
)
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.ids import TopicPartition

S = TransactionState
P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)


def metadata(
    state: TransactionState = S.EMPTY, epoch: int = 5, **fields: object
) -> TransactionMetadata:
    has_partitions = state in (S.ONGOING, S.PREPARE_COMMIT, S.PREPARE_ABORT)
    base = TransactionMetadata(
        transactional_id="x",
        producer_id=7,
        producer_epoch=epoch,
        timeout_ms=60_000,
        state=state,
        partitions=frozenset({P0}) if has_partitions else frozenset(),
        start_ms=-1 if state is S.EMPTY else 100,
        last_update_ms=100,
    )
    return replace(base, **fields)  # type: ignore[arg-type]


def test_states_have_kafkas_numbers_and_names() -> None:
    assert [(state.value, state.title) for state in S] == [
        (0, "Empty"),
        (1, "Ongoing"),
        (2, "PrepareCommit"),
        (3, "PrepareAbort"),
        (4, "CompleteCommit"),
        (5, "CompleteAbort"),
        (6, "Dead"),
        (7, "PrepareEpochFence"),
    ]


def enter(current: TransactionMetadata, state: TransactionState) -> object:
    match state:
        case S.EMPTY:
            return current.increment_epoch(1, None, 200)
        case S.ONGOING:
            return current.add_partitions(frozenset({P1}), 0, 200)
        case S.PREPARE_COMMIT | S.PREPARE_ABORT:
            return current.prepare(state, 2, NO_PRODUCER_ID, 200)
        case S.DEAD:
            return current.die()
    return current.complete(200)


@pytest.mark.parametrize(("before", "after"), list(product(list(S)[:6], ALLOWED_BEFORE)))
def test_a_state_is_entered_from_its_predecessors_only(
    before: TransactionState, after: TransactionState
) -> None:
    current = metadata(before)
    allowed = {
        S.EMPTY: {S.EMPTY, S.COMPLETE_COMMIT, S.COMPLETE_ABORT},
        S.ONGOING: {S.ONGOING, S.EMPTY, S.COMPLETE_COMMIT, S.COMPLETE_ABORT},
        S.PREPARE_COMMIT: {S.ONGOING},
        S.PREPARE_ABORT: {S.ONGOING, S.EMPTY, S.COMPLETE_COMMIT, S.COMPLETE_ABORT},
        S.COMPLETE_COMMIT: {S.PREPARE_COMMIT},
        S.COMPLETE_ABORT: {S.PREPARE_ABORT},
        S.DEAD: {S.EMPTY, S.COMPLETE_COMMIT, S.COMPLETE_ABORT},
    }[after]
    if after is S.COMPLETE_COMMIT and before is S.PREPARE_ABORT:
        return  # completing an abort is no commit: it leads to CompleteAbort, the next row
    if after is S.COMPLETE_ABORT and before is S.PREPARE_COMMIT:
        return
    if before in allowed:
        entered = enter(current, after)
        assert isinstance(entered, TransactionMetadata)
        assert entered.state is after
    else:
        with pytest.raises(AssertionError):
            enter(current, after)


# Epochs


def test_a_new_producer_gets_epoch_0() -> None:
    begun = metadata(epoch=NO_EPOCH).increment_epoch(1_000, None, 200)
    assert isinstance(begun, TransactionMetadata)
    assert (begun.producer_epoch, begun.last_producer_epoch) == (0, NO_EPOCH)
    assert (begun.timeout_ms, begun.start_ms, begun.last_update_ms) == (1_000, -1, 200)


@pytest.mark.parametrize(
    ("expected", "outcome"),
    [
        (None, (6, NO_EPOCH)),
        (5, (6, 5)),
        (4, (5, 4)),  # the last request, repeated
        (3, ErrorCode.PRODUCER_FENCED),
        (6, ErrorCode.PRODUCER_FENCED),
    ],
)
def test_the_epoch_rises_once_for_each_wish(
    expected: int | None, outcome: tuple[int, int] | ErrorCode
) -> None:
    current = metadata(last_producer_epoch=4)
    found = current.increment_epoch(1, expected, 200)
    if isinstance(found, TransactionMetadata):
        assert (found.producer_epoch, found.last_producer_epoch) == outcome
    else:
        assert found is outcome


@pytest.mark.parametrize("expected", [None, 32766])
def test_a_producer_id_with_no_epoch_left_is_followed_by_another(expected: int | None) -> None:
    current = metadata(S.COMPLETE_COMMIT, epoch=32766)
    assert current.is_exhausted
    rotated = current.rotate_producer_id(8, 1_000, expected, 200)
    assert (rotated.producer_id, rotated.previous_producer_id) == (8, 7)
    assert (rotated.producer_epoch, rotated.last_producer_epoch) == (
        0,
        NO_EPOCH if expected is None else 32766,
    )


def test_partitions_begin_and_extend_a_transaction() -> None:
    begun = metadata(S.COMPLETE_ABORT).add_partitions(frozenset({P0}), 2, 200)
    assert (begun.start_ms, begun.partitions, begun.client_version) == (200, {P0}, 2)
    more = begun.add_partitions(frozenset({P1}), 2, 300)
    assert (more.start_ms, more.last_update_ms, more.partitions) == (200, 300, {P0, P1})


@pytest.mark.parametrize(("version", "epoch", "last"), [(0, 5, 4), (2, 6, 5)])
def test_only_version_2_raises_the_epoch_at_the_end(version: int, epoch: int, last: int) -> None:
    current = metadata(S.ONGOING, last_producer_epoch=4)
    prepared = current.prepare(S.PREPARE_COMMIT, version, NO_PRODUCER_ID, 200)
    assert (prepared.producer_epoch, prepared.last_producer_epoch) == (epoch, last)
    assert (prepared.start_ms, prepared.partitions) == (100, {P0})
    done = prepared.complete(300)
    assert done.state is S.COMPLETE_COMMIT
    assert (done.producer_epoch, done.last_producer_epoch) == (epoch, last)
    assert (done.producer_id, done.partitions, done.start_ms) == (7, frozenset(), 100)


def test_an_abort_of_nothing_starts_now() -> None:
    assert metadata().prepare(S.PREPARE_ABORT, 2, NO_PRODUCER_ID, 200).start_ms == 200


def test_the_last_epochs_transaction_ends_with_the_next_producer_id() -> None:
    current = metadata(S.ONGOING, epoch=32766)
    prepared = current.prepare(S.PREPARE_COMMIT, 2, 9, 200)
    assert (prepared.producer_id, prepared.producer_epoch) == (7, EPOCH_MAX)
    assert prepared.next_producer_id == 9
    done = prepared.complete(300)
    assert (done.producer_id, done.producer_epoch) == (9, 0)
    assert (done.previous_producer_id, done.last_producer_epoch) == (7, 32766)
    assert done.next_producer_id == NO_PRODUCER_ID


def test_a_fence_is_an_abort_of_the_next_epoch() -> None:
    fenced = metadata(S.ONGOING, last_producer_epoch=4).fence(200)
    assert fenced.state is S.PREPARE_ABORT
    assert (fenced.producer_epoch, fenced.last_producer_epoch) == (6, 5)
    assert fenced.raises_epochs


def test_a_fence_at_the_end_of_the_epochs_stays_there() -> None:
    assert metadata(S.ONGOING, epoch=EPOCH_MAX).fence(200).producer_epoch == EPOCH_MAX
