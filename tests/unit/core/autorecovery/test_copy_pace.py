"""Copies keep to their rate."""

from hypothesis import given
from hypothesis import strategies as st

from tailrace.core.autorecovery.copy_pace import CopyPace


def test_without_a_limit_nobody_waits() -> None:
    assert CopyPace(0).on_copied(1 << 40, 5.0) == 0


@given(
    rate=st.integers(1, 1000),
    steps=st.lists(st.tuples(st.integers(0, 5000), st.floats(0, 3)), min_size=1),
)
def test_who_waits_as_told_never_exceeds_the_rate(
    rate: int, steps: list[tuple[int, float]]
) -> None:
    pace, now_s, copied = CopyPace(rate), 0.0, 0
    for count, idle_s in steps:
        now_s += idle_s
        wait_s = pace.on_copied(count, now_s)
        assert wait_s >= 0
        assert abs(wait_s - count / rate) < 1e-6  # who waited last time owes nothing
        now_s += wait_s
        copied += count
        assert copied <= rate * now_s + 1e-3


def test_who_does_not_wait_owes_for_all_of_it() -> None:
    pace = CopyPace(100)
    assert pace.on_copied(100, 10.0) == 1
    assert pace.on_copied(100, 10.0) == 2
    assert pace.on_copied(100, 11.5) == 1.5
    assert pace.on_copied(100, 20.0) == 1
