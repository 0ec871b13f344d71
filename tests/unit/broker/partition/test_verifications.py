"""Guards of first batches: taken away by what goes into the log, and no batch overtakes another."""

import pytest

from tailrace.broker.partition import verifications as module
from tailrace.broker.partition.verifications import Verifications
from tailrace.protocol.records.batch import TRANSACTIONAL, BatchHeader


def header(sequence: int, *, pid: int = 7, epoch: int = 0) -> BatchHeader:
    return BatchHeader(0, 100, -1, 2, 0, TRANSACTIONAL, 0, 0, 0, pid, epoch, sequence, 1)


def begin(state: Verifications, batch: BatchHeader, now_ms: int = 0) -> int:
    return state.begin(batch, now_ms, bumps_epoch=False)


def test_a_guard_holds_until_something_of_the_producer_goes_into_the_log() -> None:
    state = Verifications()
    guard = begin(state, header(0))
    assert begin(state, header(5)) == guard
    assert state.holds(7, guard)
    assert not state.holds(8, guard)
    state.forget(7)
    assert not state.holds(7, guard)
    later = begin(state, header(0))
    assert later != guard, "a yes to the transaction before must not count for this one"
    assert not state.holds(7, guard)


def test_no_batch_overtakes_one_that_was_refused_for_the_moment() -> None:
    state = Verifications()
    begin(state, header(3))
    begin(state, header(4))
    assert state.is_early(header(4), knows_batches=True)
    assert not state.is_early(header(3), knows_batches=True)
    begin(state, header(1))
    assert state.is_early(header(3), knows_batches=True)
    state.forget(7)
    assert not state.is_early(header(9), knows_batches=True)


def test_a_new_epoch_begins_anew_and_an_old_one_changes_nothing() -> None:
    state = Verifications()
    begin(state, header(3, epoch=1))
    begin(state, header(0, epoch=0))
    assert not state.is_early(header(3, epoch=1), knows_batches=True)
    begin(state, header(9, epoch=2))
    assert not state.is_early(header(9, epoch=2), knows_batches=True)


@pytest.mark.parametrize(
    ("bumps_epoch", "sequence", "knows_batches", "is_early"),
    [
        (True, 5, False, True),
        (True, 0, False, False),
        (True, 5, True, False),
        (False, 5, False, False),
    ],
)
def test_a_producer_of_version_2_begins_at_0_where_it_is_not_known(
    bumps_epoch: bool, sequence: int, knows_batches: bool, is_early: bool
) -> None:
    state = Verifications()
    state.begin(header(sequence), 0, bumps_epoch=bumps_epoch)
    assert state.is_early(header(sequence), knows_batches=knows_batches) is is_early


def test_they_expire_and_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    state = Verifications()
    old, new = begin(state, header(0, pid=1), 10), begin(state, header(0, pid=2), 20)
    state.expire(20)
    assert (state.holds(1, old), state.holds(2, new)) == (False, True)
    monkeypatch.setattr(module, "VERIFICATIONS_MAX", 5)
    guards = [begin(state, header(0, pid=pid), 30) for pid in range(10, 20)]
    assert len(state) == 5
    assert state.holds(19, guards[-1])
    assert not state.holds(2, new)
