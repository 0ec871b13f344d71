"""Each request in each state. Source: TransactionCoordinatorTest (4.3.1), case by case."""

from dataclasses import replace
from itertools import count

import pytest

from tailrace.broker.transactions.decisions import (
    Decision,
    Producer,
    decide_add,
    decide_end,
    decide_end_version_2,
    decide_init,
    verify,
)
from tailrace.broker.transactions.metadata import TransactionMetadata, TransactionState
from tailrace.protocol.errors import ErrorCode as E
from tests.unit.broker.transactions.test_metadata import P0, P1, metadata

S = TransactionState
AT_REST = (S.EMPTY, S.COMPLETE_COMMIT, S.COMPLETE_ABORT)
ME = Producer(7, 5)
NEW_ID = 99


def init(current: TransactionMetadata, expected: Producer | None = None) -> Decision:
    return decide_init(current, 1_000, expected, iter([NEW_ID]).__next__, 200)


def got(decision: Decision) -> Producer:
    assert isinstance(decision, TransactionMetadata)
    return Producer(decision.producer_id, decision.producer_epoch)


# InitProducerId


@pytest.mark.parametrize("state", AT_REST)
@pytest.mark.parametrize(
    ("expected", "outcome"),
    [
        (None, Producer(7, 6)),
        (ME, Producer(7, 6)),
        (Producer(7, 4), Producer(7, 5)),
        (Producer(7, 3), E.PRODUCER_FENCED),
        (Producer(8, 5), E.PRODUCER_FENCED),
    ],
)
def test_init_at_rest(
    state: TransactionState, expected: Producer | None, outcome: Producer | E
) -> None:
    decision = init(metadata(state, last_producer_epoch=4), expected)
    if isinstance(outcome, E):
        assert decision is outcome
    else:
        assert got(decision) == outcome
        assert isinstance(decision, TransactionMetadata)
        assert (decision.state, decision.timeout_ms) == (S.EMPTY, 1_000)


@pytest.mark.parametrize("expected", [None, ME])
def test_init_aborts_what_is_open_in_the_next_epoch(expected: Producer | None) -> None:
    decision = init(metadata(S.ONGOING), expected)
    assert isinstance(decision, TransactionMetadata)
    assert (decision.state, decision.producer_epoch) == (S.PREPARE_ABORT, 6)
    assert decision.partitions == {P0}


@pytest.mark.parametrize("expected", [Producer(7, 4), Producer(8, 5)])
def test_a_zombies_init_aborts_nothing(expected: Producer) -> None:
    assert init(metadata(S.ONGOING, last_producer_epoch=4), expected) is E.PRODUCER_FENCED


@pytest.mark.parametrize("expected", [None, Producer(7, 32766)])
def test_init_without_an_epoch_left_changes_the_producer_id(expected: Producer | None) -> None:
    assert got(init(metadata(S.COMPLETE_COMMIT, epoch=32766), expected)) == Producer(NEW_ID, 0)


def test_init_after_an_overflow_that_was_fenced() -> None:
    assert got(init(metadata(S.COMPLETE_ABORT, epoch=32767))) == Producer(NEW_ID, 0)


def test_a_repeated_init_that_changed_the_producer_id_is_known_again() -> None:
    rotated = init(metadata(S.COMPLETE_COMMIT, epoch=32766), Producer(7, 32766))
    assert isinstance(rotated, TransactionMetadata)
    assert got(init(rotated, Producer(7, 32766))) == Producer(NEW_ID, 0)
    assert init(rotated, Producer(7, 32765)) is E.PRODUCER_FENCED


def test_a_repeated_init_at_the_last_epoch_gets_it_again() -> None:
    current = metadata(epoch=32766, last_producer_epoch=32765)
    assert got(init(current, Producer(7, 32765))) == Producer(7, 32766)


def test_a_producer_that_was_fenced_at_its_last_epoch_goes_on_with_another_id() -> None:
    """The epoch of markers alone, 32767, is nobody's: no later fence could be above it."""
    aborted = metadata(S.ONGOING, epoch=32766, client_version=2).fence(200).complete(300)
    rotated = init(aborted, Producer(7, 32766))
    assert got(rotated) == Producer(NEW_ID, 0)
    assert isinstance(rotated, TransactionMetadata)
    assert got(init(rotated, Producer(7, 32766))) == Producer(NEW_ID, 0)


def test_a_producer_whose_id_was_forgotten_may_go_on() -> None:
    assert got(init(metadata(epoch=-1), Producer(3, 12))) == Producer(7, 0)


# AddPartitionsToTxn


@pytest.mark.parametrize(
    ("producer", "code"),
    [(Producer(8, 5), E.INVALID_PRODUCER_ID_MAPPING), (Producer(7, 4), E.PRODUCER_FENCED),
     (Producer(7, 6), E.PRODUCER_FENCED)],
)  # fmt: skip
@pytest.mark.parametrize("state", list(S)[:6])
def test_only_the_producer_of_the_id_is_served(
    state: TransactionState, producer: Producer, code: E
) -> None:
    current = metadata(state)
    assert decide_add(current, producer, frozenset({P0}), 0, 200) is code
    assert verify(current, producer, [P0, P1]) == {P0: code, P1: code}
    for committed in (True, False):
        assert decide_end(current, producer, committed=committed, now_ms=200) is code
        ended = decide_end_version_2(current, producer, int, committed=committed, now_ms=200)
        assert ended is code


@pytest.mark.parametrize("state", [*AT_REST, S.ONGOING])
def test_add(state: TransactionState) -> None:
    decision = decide_add(metadata(state), ME, frozenset({P1}), 2, 200)
    assert isinstance(decision, TransactionMetadata)
    assert decision.state is S.ONGOING
    assert decision.partitions == metadata(state).partitions | {P1}


def test_partitions_that_are_in_need_no_record() -> None:
    assert decide_add(metadata(S.ONGOING), ME, frozenset({P0}), 0, 200) is E.NONE


@pytest.mark.parametrize("state", [S.PREPARE_COMMIT, S.PREPARE_ABORT])
def test_nothing_is_added_while_markers_are_written(state: TransactionState) -> None:
    code = E.CONCURRENT_TRANSACTIONS
    assert decide_add(metadata(state), ME, frozenset({P0}), 0, 200) is code
    assert verify(metadata(state), ME, [P0]) == {P0: code}


# Verification


@pytest.mark.parametrize("state", [*AT_REST, S.ONGOING])
def test_verification_knows_what_is_in_the_transaction(state: TransactionState) -> None:
    is_in = E.NONE if state is S.ONGOING else E.TRANSACTION_ABORTABLE
    assert verify(metadata(state), ME, [P0, P1]) == {P0: is_in, P1: E.TRANSACTION_ABORTABLE}


# EndTxn


@pytest.mark.parametrize(
    ("state", "committed", "outcome"),
    [
        (S.EMPTY, True, E.INVALID_TXN_STATE),
        (S.EMPTY, False, E.INVALID_TXN_STATE),
        (S.ONGOING, True, S.PREPARE_COMMIT),
        (S.ONGOING, False, S.PREPARE_ABORT),
        (S.PREPARE_COMMIT, True, E.CONCURRENT_TRANSACTIONS),
        (S.PREPARE_COMMIT, False, E.INVALID_TXN_STATE),
        (S.PREPARE_ABORT, True, E.INVALID_TXN_STATE),
        (S.PREPARE_ABORT, False, E.CONCURRENT_TRANSACTIONS),
        (S.COMPLETE_COMMIT, True, E.NONE),
        (S.COMPLETE_COMMIT, False, E.INVALID_TXN_STATE),
        (S.COMPLETE_ABORT, True, E.INVALID_TXN_STATE),
        (S.COMPLETE_ABORT, False, E.NONE),
    ],
)
def test_end(state: TransactionState, committed: bool, outcome: TransactionState | E) -> None:
    decision = decide_end(metadata(state), ME, committed=committed, now_ms=200)
    if isinstance(outcome, E):
        assert decision is outcome
    else:
        assert isinstance(decision, TransactionMetadata)
        assert (decision.state, decision.producer_epoch) == (outcome, 5)


@pytest.mark.parametrize(
    ("state", "committed", "outcome"),
    [
        (S.EMPTY, True, E.INVALID_TXN_STATE),
        (S.EMPTY, False, S.PREPARE_ABORT),
        (S.ONGOING, True, S.PREPARE_COMMIT),
        (S.ONGOING, False, S.PREPARE_ABORT),
        (S.PREPARE_COMMIT, True, E.PRODUCER_FENCED),
        (S.PREPARE_ABORT, False, E.PRODUCER_FENCED),
        (S.COMPLETE_COMMIT, True, E.INVALID_TXN_STATE),
        (S.COMPLETE_COMMIT, False, S.PREPARE_ABORT),
        (S.COMPLETE_ABORT, True, E.INVALID_TXN_STATE),
        (S.COMPLETE_ABORT, False, S.PREPARE_ABORT),
    ],
)
def test_end_in_version_2(
    state: TransactionState, committed: bool, outcome: TransactionState | E
) -> None:
    current = metadata(state, client_version=2)
    decision = decide_end_version_2(current, ME, int, committed=committed, now_ms=200)
    if isinstance(outcome, E):
        assert decision is outcome
    else:
        assert isinstance(decision, TransactionMetadata)
        assert (decision.state, decision.producer_epoch) == (outcome, 6)


@pytest.mark.parametrize(
    ("state", "committed", "outcome"),
    [
        (S.PREPARE_COMMIT, True, E.CONCURRENT_TRANSACTIONS),
        (S.PREPARE_COMMIT, False, E.INVALID_TXN_STATE),
        (S.PREPARE_ABORT, True, E.INVALID_TXN_STATE),
        (S.PREPARE_ABORT, False, E.CONCURRENT_TRANSACTIONS),
        (S.COMPLETE_COMMIT, True, E.NONE),
        (S.COMPLETE_COMMIT, False, E.INVALID_TXN_STATE),
        (S.COMPLETE_ABORT, True, E.INVALID_TXN_STATE),
        (S.COMPLETE_ABORT, False, E.NONE),
        (S.EMPTY, False, E.PRODUCER_FENCED),
        (S.ONGOING, True, E.PRODUCER_FENCED),
    ],
)
def test_a_repeated_end_in_version_2_has_the_epoch_before(
    state: TransactionState, committed: bool, outcome: E
) -> None:
    current = metadata(state, epoch=6, client_version=2)
    decision = decide_end_version_2(current, ME, int, committed=committed, now_ms=200)
    assert decision is outcome


@pytest.mark.parametrize("state", [S.COMPLETE_COMMIT, S.COMPLETE_ABORT])
@pytest.mark.parametrize("committed", [True, False])
def test_an_older_epoch_is_no_repetition_where_version_2_did_not_end_it(
    state: TransactionState, committed: bool
) -> None:
    current = metadata(state, epoch=6, client_version=0)
    decision = decide_end_version_2(current, ME, int, committed=committed, now_ms=200)
    assert decision is E.PRODUCER_FENCED


def test_the_last_epoch_ends_with_the_next_producer_id_and_may_be_repeated() -> None:
    ids = count(NEW_ID)
    me = Producer(7, 32766)
    current = metadata(S.ONGOING, epoch=32766, client_version=2)
    prepared = decide_end_version_2(current, me, ids.__next__, committed=True, now_ms=200)
    assert isinstance(prepared, TransactionMetadata)
    assert (prepared.producer_epoch, prepared.next_producer_id) == (32767, NEW_ID)
    again = decide_end_version_2(prepared, me, ids.__next__, committed=True, now_ms=200)
    assert again is E.CONCURRENT_TRANSACTIONS
    done = prepared.complete(300)
    assert got(done) == Producer(NEW_ID, 0)
    for committed, code in ((True, E.NONE), (False, E.INVALID_TXN_STATE)):
        again = decide_end_version_2(done, me, ids.__next__, committed=committed, now_ms=300)
        assert again is code
    late = Producer(7, 32765)
    decision = decide_end_version_2(done, late, ids.__next__, committed=True, now_ms=300)
    assert decision is E.INVALID_PRODUCER_ID_MAPPING
    begun = replace(done, state=S.ONGOING)
    decision = decide_end_version_2(begun, me, ids.__next__, committed=True, now_ms=300)
    assert decision is E.INVALID_PRODUCER_ID_MAPPING


@pytest.mark.parametrize("committed", [True, False])
def test_an_end_that_was_fenced_at_the_last_epoch_is_no_repetition(committed: bool) -> None:
    aborted = metadata(S.ONGOING, epoch=32766, client_version=2).fence(200).complete(300)
    me = Producer(7, 32766)
    decision = decide_end_version_2(aborted, me, int, committed=committed, now_ms=300)
    assert decision is E.PRODUCER_FENCED
