"""Loads: what was written of late, in a second."""

from math import exp

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.proxy.owner.loads import IDLE, WINDOW_S, Loads


def test_a_steady_stream_has_its_rate_from_the_first_seconds_on() -> None:
    loads = Loads(0)
    for second in range(300):
        loads.add("s", 10, 1_000, second)
        if second >= 20:
            load = loads.of("s", second + 0.5)
            assert load.records == pytest.approx(10, rel=0.06)
            assert load.size_bytes == pytest.approx(1_000, rel=0.06)


def test_what_is_written_no_more_is_forgotten_slowly() -> None:
    loads = Loads(0)
    for second in range(600):
        loads.add("s", 10, 1_000, second)
    before = loads.of("s", 600).records
    assert loads.of("s", 600 + WINDOW_S).records == pytest.approx(before / 2.718, rel=0.01)
    assert loads.of("s", 600 + 20 * WINDOW_S).records < 1e-6


def test_one_write_is_no_burst_and_time_that_goes_back_stands_still() -> None:
    loads = Loads(0)
    loads.add("s", 1, 100, 50.0)
    assert loads.of("s", 50.0) == loads.of("s", 49.0)
    assert loads.of("s", 50.0).size_bytes == pytest.approx(100, rel=0.01)


def test_streams_are_counted_apart_and_forgotten() -> None:
    loads = Loads(0)
    loads.add("a", 1, 1, 0)
    assert loads.of("b", 1) == IDLE
    loads.forget("a")
    loads.forget("a")
    assert loads.of("a", 1) == IDLE


@given(st.lists(st.tuples(st.floats(0, 30), st.integers(1, 1000)), min_size=1, max_size=30))
def test_against_a_sum_over_all_that_was_written(writes: list[tuple[float, int]]) -> None:
    loads, now_s, written = Loads(0), 0.0, []
    for pause_s, count in writes:
        now_s += pause_s
        written.append((now_s, count))
        loads.add("s", count, 2 * count, now_s)
    weighed = sum(count * exp((at_s - now_s) / WINDOW_S) for at_s, count in written)
    age_s = max(now_s - written[0][0], 1.0)
    expected = weighed / (WINDOW_S * (1 - exp(-age_s / WINDOW_S)))
    found = loads.of("s", now_s)
    assert found.records == pytest.approx(expected)
    assert found.size_bytes == pytest.approx(2 * expected)


def test_the_service_has_the_load_of_all_streams_also_of_those_that_went() -> None:
    loads = Loads(0)
    for second in range(300):
        loads.add("ab"[second % 2], 10, 1_000, second)
        loads.forget("b")
    assert loads.service.of(300).records == pytest.approx(10, rel=0.02)
    assert loads.service.of(300).size_bytes == pytest.approx(1_000, rel=0.02)
