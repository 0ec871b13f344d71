from itertools import combinations

import pytest

from tailrace.core.ledger.schedule import Schedule, Schedules
from tailrace.protocol.ids import BookieId

SHAPES = [(e, w, a) for e in range(1, 6) for w in range(1, e + 1) for a in range(1, w + 1)]


def bookies(count: int) -> tuple[BookieId, ...]:
    return tuple(BookieId(f"b{i}") for i in range(count))


@pytest.mark.parametrize(("e", "w", "a"), SHAPES)
def test_write_sets_are_round_robin(e: int, w: int, a: int) -> None:
    schedule = Schedule(bookies(e), w, a)
    for entry_id in range(2 * e):
        expected = tuple((entry_id + i) % e for i in range(w))
        assert schedule.write_set(entry_id) == expected
        assert schedule.write_bookies(entry_id) == tuple(BookieId(f"b{i}") for i in expected)


@pytest.mark.parametrize(("e", "w", "a"), SHAPES)
def test_coverage_means_that_no_ack_quorum_is_silent(e: int, w: int, a: int) -> None:
    """The oracle: some entry's ack quorum lies wholly among those who did not answer."""
    schedule = Schedule(bookies(e), w, a)
    for size in range(e + 1):
        for answered in combinations(bookies(e), size):
            silent = set(bookies(e)) - set(answered)
            hidden = any(
                set(acks) <= silent
                for entry_id in range(e)
                for acks in combinations(schedule.write_bookies(entry_id), a)
            )
            assert schedule.is_covered(answered) == (not hidden)
            assert schedule.can_cover(silent) == (not hidden)


@pytest.mark.parametrize(
    ("e", "w", "a", "needed"), [(3, 3, 2, 2), (3, 2, 2, 2), (1, 1, 1, 1), (5, 5, 3, 3)]
)
def test_answers_needed_by_the_reference(e: int, w: int, a: int, needed: int) -> None:
    schedule = Schedule(bookies(e), w, a)
    assert schedule.is_covered(bookies(e)[:needed])
    assert not schedule.is_covered(bookies(e)[: needed - 1])


@pytest.mark.parametrize(("e", "w", "a"), [(0, 0, 0), (1, 2, 1), (2, 1, 2), (2, 2, 0)])
def test_impossible_quorums(e: int, w: int, a: int) -> None:
    with pytest.raises(ValueError, match="quorums"):
        Schedule(bookies(e), w, a)


def test_a_bookie_cannot_count_twice() -> None:
    with pytest.raises(ValueError, match="twice"):
        Schedule((BookieId("b"), BookieId("b")), 2, 2)


def test_schedules_of_fragments() -> None:
    first, second = bookies(2), (BookieId("x"), BookieId("y"))
    schedules = Schedules([(0, first), (10, second)], 2, 1)
    assert schedules.of(0).ensemble == schedules.of(9).ensemble == first
    assert schedules.of(10).ensemble == schedules.last.ensemble == second
    assert schedules.last_first_entry_id == 10
