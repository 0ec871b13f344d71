"""Fragments against an oracle that writes down the ensemble of each entry; failures by stories."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.core.ledger.ensemble_change import (
    FailedBookies,
    with_ensemble,
    with_recovered,
    without_unwritten,
)
from tailrace.core.metadata.ledger_metadata import Fragment
from tailrace.protocol.ids import BookieId

ENTRIES = 12


def names(*numbers: int) -> tuple[BookieId, ...]:
    return tuple(BookieId(f"b{n}") for n in numbers)


def by_entry(fragments: tuple[Fragment, ...]) -> list[tuple[BookieId, ...]]:
    """The oracle's view: who holds each entry, one by one."""
    return [
        [f.ensemble for f in fragments if f.first_entry_id <= entry_id][-1]
        for entry_id in range(ENTRIES)
    ]


CHANGES = st.lists(st.integers(0, ENTRIES - 1), max_size=8).map(sorted)


def changed(firsts: list[int], start: tuple[Fragment, ...]) -> tuple[Fragment, ...]:
    fragments = start
    for number, first in enumerate(firsts):
        fragments = with_ensemble(fragments, first, names(10 + number))
    return fragments


@given(firsts=CHANGES)
def test_changes_equal_the_list_of_each_entrys_ensemble(firsts: list[int]) -> None:
    fragments = changed(firsts, (Fragment(0, names(0)),))
    held = [names(0)] * ENTRIES
    for number, first in enumerate(firsts):
        held[first:] = [names(10 + number)] * (ENTRIES - first)
    assert by_entry(fragments) == held
    begins = [fragment.first_entry_id for fragment in fragments]
    assert begins == sorted(set(begins))
    assert begins[0] == 0


@given(firsts=CHANGES, last_entry_id=st.integers(-1, ENTRIES - 1))
def test_unwritten_fragments_hold_no_entry(firsts: list[int], last_entry_id: int) -> None:
    fragments = changed(firsts, (Fragment(0, names(0)),))
    kept = without_unwritten(fragments, last_entry_id)
    assert by_entry(kept)[: last_entry_id + 1] == by_entry(fragments)[: last_entry_id + 1]
    assert kept[0] == fragments[0]
    assert all(fragment.first_entry_id <= last_entry_id for fragment in kept[1:])


def test_a_fragment_never_begins_before_the_last_one() -> None:
    """The invalid fragment of BookKeeper #2615: confirmed entries would lose their bookies."""
    with pytest.raises(ValueError, match="a fragment at 4 behind one at 5"):
        with_ensemble((Fragment(0, names(0)), Fragment(5, names(1))), 4, names(2))


@given(known=CHANGES, ours=CHANGES, edited=st.sets(st.integers(0, 8)))
def test_edits_of_others_stand_and_ours_follow(
    known: list[int], ours: list[int], edited: set[int]
) -> None:
    before = changed(known, (Fragment(0, names(0)),))
    last = before[-1].first_entry_id
    recovered = before
    for number, first in enumerate(ours):
        if first >= last:
            recovered = with_ensemble(recovered, first, names(50 + number))
    current = tuple(
        f._replace(ensemble=names(90 + i)) if i in edited else f for i, f in enumerate(before)
    )
    closed = with_recovered(current, before, recovered)
    if len(before) - 1 in edited:
        assert closed is None
    else:
        assert closed is not None
        expected = by_entry(current)[:last] + by_entry(recovered)[last:]
        assert by_entry(closed) == expected


def test_a_fragment_that_somebody_added_is_not_overwritten() -> None:
    known = (Fragment(0, names(0)),)
    assert with_recovered((*known, Fragment(3, names(1))), known, known) is None


def test_failures_gather_while_a_change_runs() -> None:
    failed = FailedBookies(names(0, 1, 2), delay=False)
    failed.on_failure(BookieId("b1"))
    assert failed.is_due
    assert failed.begin() == {1: "b1"}
    failed.on_failure(BookieId("b1"))
    failed.on_failure(BookieId("b2"))
    assert not failed.is_due
    failed.on_installed(names(0, 5, 2))
    assert failed.is_due
    assert failed.begin() == {2: "b2"}
    failed.on_installed(names(0, 5, 6))
    assert not failed.is_due
    assert failed.changes == 2


def test_late_failure_of_a_replaced_bookie_is_nothing() -> None:
    failed = FailedBookies(names(0, 1), delay=False)
    failed.on_failure(BookieId("b0"))
    failed.begin()
    failed.on_installed(names(5, 1))
    failed.on_failure(BookieId("b0"), stuck=True)
    assert not failed.is_due


def test_delayed_until_an_entry_waits_or_a_bookie_refuses_all() -> None:
    failed = FailedBookies(names(0, 1, 2), delay=True)
    failed.on_failure(BookieId("b0"))
    assert not failed.is_due
    failed.on_failure(BookieId("b0"), stuck=True)
    failed.on_failure(BookieId("b2"), urgent=True)
    assert failed.begin() == {0: "b0", 2: "b2"}


def test_nobody_to_replace_with_pauses_unless_it_is_urgent() -> None:
    failed = FailedBookies(names(0, 1, 2), delay=False)
    failed.on_failure(BookieId("b0"))
    failed.begin()
    failed.on_nothing_replaced()
    assert not failed.is_due
    failed.on_failure(BookieId("b0"), urgent=True)
    assert not failed.is_due
    failed.on_pause_over()
    assert failed.is_due
    failed.begin()
    failed.on_failure(BookieId("b1"), stuck=True)
    failed.on_nothing_replaced()
    assert not failed.is_due
    failed.on_failure(BookieId("b1"), stuck=True)
    assert failed.is_due
    assert failed.begin() == {1: "b1"}


def test_partly_replaced_goes_on_with_the_rest() -> None:
    failed = FailedBookies(names(0, 1, 2), delay=False)
    failed.on_failure(BookieId("b0"), stuck=True)
    failed.on_failure(BookieId("b1"), stuck=True)
    assert failed.begin() == {0: "b0", 1: "b1"}
    failed.on_installed(names(7, 1, 2))
    assert failed.is_due
    assert failed.begin() == {1: "b1"}


class Noted:
    """The oracle: everything that happened since the last end of a change, looked at anew."""

    def __init__(self, delay: bool) -> None:
        self.delay = delay
        self.ensemble = list(names(0, 1, 2))
        self.failed: list[tuple[BookieId, bool]] = []  # (bookie, an entry waits for it)
        self.attempted: list[BookieId] | None = None
        self.paused = False

    def due(self) -> bool:
        return bool(
            self.failed
            and self.attempted is None
            and (not self.paused or any(stuck for _, stuck in self.failed))
        )


@given(delay=st.booleans(), data=st.data())
def test_failed_bookies_equal_the_oracle(delay: bool, data: st.DataObject) -> None:
    failed, noted = FailedBookies(names(0, 1, 2), delay=delay), Noted(delay)
    fresh = 3
    for _ in range(data.draw(st.integers(0, 30))):
        step = data.draw(st.sampled_from(["fail", "urgent", "stuck", "begin", "end", "none", "on"]))
        if step in ("fail", "urgent", "stuck"):
            bookie = BookieId(f"b{data.draw(st.integers(0, fresh))}")
            failed.on_failure(bookie, urgent=step == "urgent", stuck=step == "stuck")
            if bookie in noted.ensemble and not (delay and step == "fail"):
                noted.failed.append((bookie, step == "stuck"))
        elif step == "begin" and noted.due():
            places = failed.begin()
            noted.attempted = sorted({bookie for bookie, _ in noted.failed})
            assert sorted(places.values()) == noted.attempted
            assert all(noted.ensemble[place] == bookie for place, bookie in places.items())
        elif step == "end" and noted.attempted is not None:
            place = noted.ensemble.index(noted.attempted[0])
            noted.ensemble[place] = BookieId(f"b{fresh}")
            fresh += 1
            failed.on_installed(tuple(noted.ensemble))
            noted.failed = [(b, False) for b, _ in noted.failed if b in noted.ensemble]
            noted.attempted = None
        elif step == "none" and noted.attempted is not None:
            failed.on_nothing_replaced()
            noted.failed = [(b, False) for b, _ in noted.failed if b not in noted.attempted]
            noted.attempted, noted.paused = None, True
        elif step == "on":
            failed.on_pause_over()
            noted.paused = False
        assert failed.is_due == noted.due()
        assert failed.changing == (noted.attempted is not None)
