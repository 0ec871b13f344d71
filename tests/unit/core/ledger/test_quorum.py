"""The tracker against a naive oracle that remembers everything and recomputes everything."""

from collections.abc import Collection

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.core.ledger.quorum import WriteQuorumTracker
from tailrace.core.ledger.schedule import Schedule
from tailrace.protocol.ids import BookieId


def names(*numbers: int) -> tuple[BookieId, ...]:
    return tuple(BookieId(f"b{n}") for n in numbers)


class Oracle:
    """All acks in one set of pairs; the LAC is counted from zero each time."""

    def __init__(self, ensemble: tuple[BookieId, ...], w: int, a: int) -> None:
        self.ensemble, self.w, self.a = ensemble, w, a
        self.acks: set[tuple[int, BookieId]] = set()
        self.failures: set[tuple[int, BookieId]] = set()
        self.added = 0
        self.lac = -1
        self.frozen = False

    def write_set(self, entry: int) -> set[BookieId]:
        return {self.ensemble[(entry + i) % len(self.ensemble)] for i in range(self.w)}

    def ack(self, entry: int, bookie: BookieId) -> None:
        if bookie in self.write_set(entry):  # else it was replaced, or never asked
            self.acks.add((entry, bookie))
        self.advance()

    def advance(self) -> None:
        while not self.frozen and self.lac + 1 < self.added:
            entry = self.lac + 1
            write_set = self.write_set(entry)
            if len([b for b in write_set if (entry, b) in self.acks]) < self.a:
                break
            self.lac = entry

    def stuck(self) -> bool:
        """Some entry that waits has too few bookies left that did not fail it.

        Who acknowledged it has it, whatever became of another sending.
        """
        for entry in range(self.lac + 1, self.added):
            write_set = self.write_set(entry)
            failed = {b for b in write_set if (entry, b) in self.failures - self.acks}
            if failed and len(write_set - failed) < self.a:
                return True
        return False

    def failed(self) -> list[BookieId]:
        return [
            b
            for b in self.ensemble
            if any((e, b) in self.failures - self.acks for e in range(self.lac + 1, self.added))
        ]

    def change(self, ensemble: tuple[BookieId, ...]) -> None:
        gone = set(self.ensemble) - set(ensemble)
        self.acks = {(e, b) for e, b in self.acks if b not in gone or e <= self.lac}
        self.failures = {(e, b) for e, b in self.failures if b not in gone}
        self.ensemble = ensemble
        self.frozen = False
        self.advance()


@settings(max_examples=300)
@given(st.data())
def test_tracker_equals_the_oracle(data: st.DataObject) -> None:
    e = data.draw(st.integers(1, 4), "E")
    w = data.draw(st.integers(1, e), "Qw")
    a = data.draw(st.integers(1, w), "Qa")
    ensemble = names(*range(e))
    tracker, oracle = WriteQuorumTracker(Schedule(ensemble, w, a)), Oracle(ensemble, w, a)
    spare = e
    for _ in range(data.draw(st.integers(0, 40), "steps")):
        before = tracker.lac
        step = data.draw(
            st.sampled_from(["add", "add", "ack", "ack", "ack", "fail", "freeze", "change"])
        )
        confirmed = range(0)
        if step == "add":
            assert len(tracker.begin_add(oracle.added)) == w
            oracle.added += 1
        elif step == "ack" and oracle.added:
            entry = data.draw(st.integers(max(0, oracle.lac - 1), oracle.added - 1))
            bookie = data.draw(st.sampled_from(names(*range(spare))))
            confirmed = tracker.on_ack(entry, bookie)
            oracle.ack(entry, bookie)
        elif step == "fail" and oracle.added:
            entry = data.draw(st.integers(0, oracle.added - 1))
            bookie = data.draw(st.sampled_from(oracle.ensemble))
            if entry > oracle.lac and bookie in oracle.write_set(entry):
                oracle.failures.add((entry, bookie))
            assert not tracker.on_failure(entry, bookie) or oracle.stuck()
        elif step == "freeze":
            tracker.freeze()
            oracle.frozen = True
        elif step == "change":
            at = data.draw(st.integers(0, e - 1))
            outside = sorted({*names(*range(spare + 1))} - {*oracle.ensemble})  # one may come back
            comes = data.draw(st.sampled_from(outside))
            changed = (*oracle.ensemble[:at], comes, *oracle.ensemble[at + 1 :])
            spare += 1
            tracker.freeze()
            confirmed = tracker.on_ensemble_changed(Schedule(changed, w, a))
            oracle.change(changed)
        assert tracker.lac == oracle.lac
        assert tracker.is_stuck() == oracle.stuck()
        assert list(tracker.failed_bookies()) == oracle.failed()
        assert list(confirmed) == list(range(before + 1, oracle.lac + 1))
        assert list(tracker.unconfirmed()) == list(range(oracle.lac + 1, oracle.added))


def test_late_acks_are_ignored() -> None:
    tracker = WriteQuorumTracker(Schedule(names(0, 1, 2), 3, 2))
    tracker.begin_add(0)
    assert not tracker.on_ack(0, BookieId("b0"))
    assert not tracker.on_ack(0, BookieId("b0"))
    assert tracker.on_ack(0, BookieId("b1")) == range(1)
    assert not tracker.on_ack(0, BookieId("b2"))
    assert not tracker.on_ack(1, BookieId("b2"))  # never begun
    assert (tracker._acks, tracker._failures) == ({}, {})


def test_acks_out_of_order_confirm_together() -> None:
    tracker = WriteQuorumTracker(Schedule(names(0), 1, 1))
    for entry in range(3):
        tracker.begin_add(entry)
    assert not tracker.on_ack(2, BookieId("b0"))
    assert not tracker.on_ack(1, BookieId("b0"))
    assert tracker.on_ack(0, BookieId("b0")) == range(3)
    assert tracker._acks == {}


def test_entries_begin_in_order() -> None:
    tracker = WriteQuorumTracker(Schedule(names(0), 1, 1), lac=4)
    with pytest.raises(AssertionError):
        tracker.begin_add(6)
    tracker.begin_add(5)


def test_failures_count_per_entry_until_the_quorum_is_out_of_reach() -> None:
    tracker = WriteQuorumTracker(Schedule(names(0, 1, 2), 3, 2))
    tracker.begin_add(0)
    tracker.begin_add(1)
    assert not tracker.on_failure(0, BookieId("b0"))
    assert not tracker.on_failure(0, BookieId("b0"))
    assert not tracker.on_failure(1, BookieId("b1"))
    assert tracker.missing(0) == names(1, 2)
    assert tracker.on_failure(0, BookieId("b2"))
    assert not tracker.on_failure(7, BookieId("b2"))


def test_a_failure_after_confirmation_is_nothing() -> None:
    tracker = WriteQuorumTracker(Schedule(names(0, 1), 2, 1))
    tracker.begin_add(0)
    tracker.on_failure(0, BookieId("b0"))
    assert tracker.on_ack(0, BookieId("b1")) == range(1)
    assert not tracker.on_failure(0, BookieId("b0"))
    assert tracker._failures == {}


def test_ensemble_change_story() -> None:
    """An ack of a replaced bookie stops counting; nothing is confirmed while the change runs."""
    tracker = WriteQuorumTracker(Schedule(names(0, 1, 2), 3, 2))
    for entry in (0, 1):
        tracker.begin_add(entry)
    tracker.on_ack(0, BookieId("b0"))
    tracker.on_ack(1, BookieId("b1"))
    tracker.freeze()
    assert not tracker.on_ack(0, BookieId("b1"))
    assert not tracker.on_ack(1, BookieId("b2"))
    assert tracker.lac == -1
    # b0 is replaced by b9: entry 0 has only b1 left, entry 1 has b1 and b2.
    assert not tracker.on_ensemble_changed(Schedule(names(9, 1, 2), 3, 2))
    assert tracker.missing(0) == names(9, 2)
    assert not tracker.on_ack(0, BookieId("b0"))
    assert tracker.on_ack(0, BookieId("b9")) == range(2)


def two_racks(bookies: Collection[BookieId]) -> bool:
    return len({int(bookie.removeprefix("b")) % 2 for bookie in bookies}) == 2


def test_rule_beside_the_number() -> None:
    """With a rule for fault domains an entry waits for Qa bookies that satisfy it."""
    tracker = WriteQuorumTracker(Schedule(names(0, 2, 3), 3, 2), rule=two_racks)
    tracker.begin_add(0)
    tracker.on_ack(0, BookieId("b0"))
    assert not tracker.on_ack(0, BookieId("b2"))
    assert tracker.on_ack(0, BookieId("b3")) == range(1)
    tracker.begin_add(1)
    assert tracker.on_failure(1, BookieId("b3"))  # b0 and b2 alone will never do
    assert tracker.is_stuck()
    tracker.freeze()
    tracker.on_ensemble_changed(Schedule(names(0, 2, 5), 3, 2))
    assert not tracker.is_stuck()
    single = WriteQuorumTracker(Schedule(names(0), 1, 1), rule=two_racks)
    single.begin_add(0)
    assert not single.on_ack(0, BookieId("b0"))
