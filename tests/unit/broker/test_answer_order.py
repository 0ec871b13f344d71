"""Answers leave in the order of requests."""

from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.broker.answer_order import AnswerOrder, Watch


class Item:
    def __init__(self, number: int) -> None:
        self.number = number
        self.parts: list[bytes | bytearray | memoryview] | None = None


@settings(max_examples=150, deadline=None)
@given(st.permutations(range(8)))
def test_whatever_the_order_of_finishing_the_order_of_leaving_is_that_of_arrival(
    order: list[int],
) -> None:
    pipeline: AnswerOrder[Item] = AnswerOrder()
    items = [Item(number) for number in range(8)]
    for item in items:
        pipeline.turns.append(item)
    left: list[int] = []
    for number in order:
        items[number].parts = []
        left.extend(ready.number for ready in pipeline.take_ready())
        assert left == list(range(len(left)))
        assert len(pipeline) == 8 - len(left)
        assert all(item.parts is None for item in pipeline.pending())
    assert left == list(range(8))


def test_clearing_gives_back_everything_in_order() -> None:
    pipeline: AnswerOrder[Item] = AnswerOrder()
    for number in range(3):
        pipeline.turns.append(Item(number))
    assert [item.number for item in pipeline.clear()] == [0, 1, 2]
    assert len(pipeline) == 0
    assert pipeline.take_ready() == []


def test_a_watch_tells_the_age_of_what_it_sees_unbroken() -> None:
    watch, one, other = Watch(), object(), object()
    assert [watch.age_s(thing, now) for thing, now in ((one, 5), (one, 7), (other, 8))] == [0, 2, 0]
    assert [watch.age_s(thing, now) for thing, now in ((other, 9), (one, 10), (None, 20))] == [
        1,
        0,
        0,
    ]
