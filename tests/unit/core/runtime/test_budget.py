"""A budget: how much may be in flight, and who goes on when there is room again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.core.runtime.budget import Budget


def test_the_piece_that_crosses_the_limit_passes_and_the_next_one_waits() -> None:
    budget = Budget("bytes", 10)
    budget.take(9)
    assert not budget.full
    budget.take(50)
    assert budget.full
    assert budget.room == 0
    budget.give(50)
    assert (budget.full, budget.room, budget.used_max) == (False, 1, 59)


def test_those_who_wait_are_woken_in_order_and_only_while_there_is_room() -> None:
    budget = Budget("bytes", 10)
    budget.take(10)
    woken: list[str] = []

    def first() -> None:
        woken.append("first")
        budget.take(10)

    def second() -> None:
        woken.append("second")

    budget.when_free(first)
    budget.when_free(second)
    budget.when_free(first)
    assert budget.full_total == 2
    budget.give(10)
    assert woken == ["first"]
    budget.give(1)
    assert woken == ["first", "second"]


def test_a_callback_that_gives_back_does_not_wake_from_inside() -> None:
    budget = Budget("bytes", 10)
    budget.take(15)
    depth: list[int] = []
    seen: list[int] = []

    def callback(number: int) -> None:
        depth.append(number)
        seen.append(len(depth))
        budget.take(1)
        budget.give(1)
        depth.pop()

    callbacks = [lambda n=n: callback(n) for n in range(50)]
    for each in callbacks:
        budget.when_free(each)
    budget.give(15)
    assert seen == [1] * 50


def test_a_forgotten_callback_is_not_called() -> None:
    budget = Budget("bytes", 1)
    budget.take(1)

    def never() -> None:
        raise AssertionError

    budget.when_free(never)
    budget.forget(never)
    budget.forget(never)
    budget.give(1)


def test_giving_back_more_than_was_taken_is_our_bug() -> None:
    budget = Budget("bytes", 1)
    with pytest.raises(AssertionError, match="bytes"):
        budget.give(1)


@given(st.lists(st.integers(0, 20), max_size=40))
def test_used_is_the_sum_of_what_is_out(amounts: list[int]) -> None:
    budget = Budget("bytes", 30)
    for amount in amounts:
        budget.take(amount)
    assert budget.used == sum(amounts)
    for amount in amounts:
        budget.give(amount)
    assert budget.used == 0
