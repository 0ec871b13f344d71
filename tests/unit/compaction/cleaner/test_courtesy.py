"""How fast the cleaner goes beside clients that write."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.compaction.cleaner.courtesy import CATCH_UP, QUIET_S, SAMPLE_S, UNLIMITED, Courtesy

FLOOR = 1000.0


def test_without_writes_there_is_no_limit() -> None:
    courtesy = Courtesy()
    for second in range(10):
        assert courtesy.rate(5_000_000, float(second), FLOOR) == UNLIMITED


def test_the_first_write_slows_it_down_at_once() -> None:
    courtesy = Courtesy()
    courtesy.rate(0, 0.0, FLOOR)
    assert courtesy.rate(1, 100.0, FLOOR) == FLOOR


def test_the_limit_goes_once_clients_are_quiet() -> None:
    courtesy = Courtesy()
    courtesy.rate(0, 0.0, FLOOR)
    courtesy.rate(1, 1.0, FLOOR)
    assert courtesy.rate(1, 1.0 + QUIET_S - 0.01, FLOOR) < UNLIMITED
    assert courtesy.rate(1, 1.0 + QUIET_S, FLOOR) == UNLIMITED


def test_it_keeps_up_with_clients_that_write_much() -> None:
    courtesy = Courtesy()
    for tick in range(100):
        rate = courtesy.rate(tick * 10_000, tick * 0.1, FLOOR)
    assert rate == pytest.approx(CATCH_UP * 100_000)


def test_what_was_written_before_a_pause_does_not_count() -> None:
    courtesy = Courtesy()
    courtesy.rate(0, 0.0, FLOOR)
    courtesy.rate(10**9, 0.1, FLOOR)
    assert courtesy.rate(10**9 + 1, 0.1 + QUIET_S, FLOOR) == FLOOR


@given(st.lists(st.tuples(st.integers(0, 10**7), st.floats(0.001, 3.0)), max_size=50))
def test_any_writes(steps: list[tuple[int, float]]) -> None:
    """It is the floor, what keeps up with some sample of the writes, or none while all is quiet."""
    courtesy = Courtesy()
    written, now_s, wrote_s = 0, 0.0, -UNLIMITED
    courtesy.rate(written, now_s, FLOOR)
    fastest = 0.0
    for size, pause_s in steps:
        written, now_s = written + size, now_s + pause_s
        wrote_s = now_s if size else wrote_s
        fastest = max(fastest, sum(each for each, _ in steps) / SAMPLE_S)
        rate = courtesy.rate(written, now_s, FLOOR)
        assert (rate == UNLIMITED) == (now_s - wrote_s >= QUIET_S)
        assert rate == UNLIMITED or FLOOR <= rate <= max(FLOOR, CATCH_UP * fastest)
