"""Which entries one read takes: never none, never more than the bounds say, close ones together."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from tailrace.bookie.entry_log_format import pack_location
from tailrace.bookie.entry_spans import (
    GUESS_BYTES_MAX,
    HOLE_BYTES_MAX,
    LENGTH_SIZE,
    SPAN_BYTES_MAX,
    Span,
    next_span,
)

steps = st.lists(
    st.integers(-3000, 3000) | st.integers(60_000, 80_000) | st.just(1 << 32),
    min_size=1,
    max_size=30,
)


@given(steps, st.integers(0, 70_000), st.data())
def test_a_span_keeps_its_bounds(step: list[int], guess: int, data: st.DataObject) -> None:
    places = [pack_location(5, 1 << 20)]
    for each in step:
        places.append(places[-1] + each)
    at = data.draw(st.integers(0, len(places) - 1))
    count, size = next_span(places, at, guess)
    assert 1 <= count <= len(places) - at
    chosen = places[at : at + count]
    for before, after in pairwise(chosen):
        assert 0 < after - before <= LENGTH_SIZE + guess + HOLE_BYTES_MAX
    if size:
        assert size == chosen[-1] - chosen[0] + LENGTH_SIZE + guess
        assert count == 1 or size <= SPAN_BYTES_MAX
    else:
        assert count == 1
        assert guess == 0 or guess > GUESS_BYTES_MAX
    if count < len(places) - at and guess:
        step_to_next = places[at + count] - chosen[-1]
        whole = places[at + count] - chosen[0] + LENGTH_SIZE + guess
        too_far = not 0 < step_to_next <= LENGTH_SIZE + guess + HOLE_BYTES_MAX
        assert too_far or whole > SPAN_BYTES_MAX


def test_neighbours_in_one_log_go_together_and_logs_do_not() -> None:
    one = [pack_location(1, 1024 + index * 104) for index in range(10)]
    other = [pack_location(2, 1024 + index * 104) for index in range(10)]
    assert next_span([*one, *other], 0, 100) == Span(10, 10 * 104)
    assert next_span([*one, *other], 9, 100) == Span(1, 104)
    assert next_span(one, 0, 0) == Span(1, 0), "nobody knows how long the first one is"
    assert next_span(one, 3, GUESS_BYTES_MAX).entry_count == 7
    far = [pack_location(1, 1024 + index * 100_000) for index in range(3)]
    assert next_span(far, 0, 100) == Span(1, 104)
    assert next_span(far, 0, GUESS_BYTES_MAX + 1) == Span(1, 0)


def test_a_span_ends_before_it_keeps_too_much_in_memory() -> None:
    size = GUESS_BYTES_MAX
    places = [pack_location(1, 1024 + index * (size + LENGTH_SIZE)) for index in range(40)]
    found = next_span(places, 0, size)
    assert found == Span(15, 15 * (size + LENGTH_SIZE))
    assert found.size_bytes <= SPAN_BYTES_MAX < 16 * (size + LENGTH_SIZE)
