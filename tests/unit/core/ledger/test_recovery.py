from itertools import permutations, product

import pytest

from tailrace.core.ledger.recovery import EntrySearch, LacSearch, Verdict
from tailrace.core.ledger.schedule import Schedule
from tailrace.protocol.ids import BookieId

B = tuple(BookieId(f"b{i}") for i in range(3))
E3 = Schedule(B, 3, 2)
STRIPED = Schedule(B, 2, 2)
SINGLE = Schedule(B[:1], 1, 1)


def test_lac_is_the_highest_answer_once_covered() -> None:
    search = LacSearch(E3)
    search.on_answer(B[0], 4)
    assert not search.is_covered
    search.on_answer(B[2], 9)
    assert search.is_covered
    assert search.lac == 9
    search.on_answer(B[1], 2)
    assert search.lac == 9


def test_nothing_there_is_an_answer_and_failure_is_none() -> None:
    search = LacSearch(E3, floor=5)
    search.on_failure(B[0])
    assert not search.is_hopeless
    search.on_answer(B[1], None)
    assert not search.is_covered
    search.on_answer(B[2], None)
    assert search.is_covered
    assert search.lac == 5


def test_hopeless_when_an_ack_quorum_can_stay_silent() -> None:
    search = LacSearch(E3)
    search.on_failure(B[0])
    search.on_failure(B[0])
    assert not search.is_hopeless
    search.on_failure(B[1])
    assert search.is_hopeless
    search = LacSearch(STRIPED)
    search.on_failure(B[0])
    assert not search.is_hopeless
    search = LacSearch(SINGLE)
    search.on_failure(B[0])
    assert search.is_hopeless


def test_failure_after_an_answer_takes_nothing_back() -> None:
    search = LacSearch(SINGLE)
    search.on_answer(B[0], 3)
    search.on_failure(B[0])
    assert search.is_covered
    assert not search.is_hopeless


@pytest.mark.parametrize("schedule", [E3, STRIPED, SINGLE, Schedule(B, 3, 1), Schedule(B, 3, 3)])
def test_verdicts_for_all_answers_in_all_orders(schedule: Schedule) -> None:
    """Oracle: an entry that Qa bookies acknowledged is never judged absent."""
    write_set = schedule.write_bookies(1)
    for answers in product(("entry", "absent", "failed"), repeat=len(write_set)):
        for order in permutations(range(len(write_set))):
            search = EntrySearch(schedule, 1)
            for i in order:
                on = {
                    "entry": search.on_entry,
                    "absent": search.on_absent,
                    "failed": search.on_failure,
                }
                on[answers[i]](write_set[i])
            may_have_acked = len(write_set) - answers.count("absent") >= schedule.ack_quorum
            if search.verdict is Verdict.ABSENT:
                assert not may_have_acked
            elif search.verdict is Verdict.EXISTS:
                assert "entry" in answers
            else:
                assert search.verdict is Verdict.UNDECIDABLE
                assert "entry" not in answers
                assert may_have_acked


def test_the_first_proof_stands() -> None:
    search = EntrySearch(E3, 0)
    search.on_absent(B[0])
    search.on_absent(B[1])
    assert search.verdict is Verdict.ABSENT
    search.on_entry(B[2])
    assert search.verdict is Verdict.ABSENT


def test_strangers_and_repeats_do_not_count() -> None:
    search = EntrySearch(STRIPED, 0)  # write set: b0, b1; one absence is enough
    search.on_absent(B[2])
    search.on_entry(B[2])
    assert search.verdict is Verdict.PENDING
    search = EntrySearch(E3, 0)
    search.on_absent(B[0])
    search.on_absent(B[0])
    assert search.verdict is Verdict.PENDING
