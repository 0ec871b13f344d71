"""Retention: Kafka's rules as a table, and its promises under any limits."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.compaction.retention import Limits, RetainedSegment, Verdict, judge

NOW = 10_000


def segments(*facts: tuple[int, int], last_open: bool = True) -> list[RetainedSegment]:
    """Return segments of ten records each, by (size, newest)."""
    return [
        RetainedSegment(10 * n, 10 * n + 10, size, newest, last_open and n == len(facts) - 1)
        for n, (size, newest) in enumerate(facts)
    ]


OLD, YOUNG = 100, 9_900


@pytest.mark.parametrize(
    ("facts", "limits", "start", "expected"),
    [
        ([(5, OLD), (5, YOUNG)], Limits(1000, -1, True), 0, Verdict(10, False)),
        ([(5, OLD), (5, OLD)], Limits(1000, -1, True), 0, Verdict(20, True)),
        ([(5, YOUNG), (5, OLD)], Limits(1000, -1, True), 0, Verdict(0, False)),
        ([(5, -1), (5, OLD)], Limits(1000, -1, True), 0, Verdict(0, False)),
        ([(5, NOW + 50), (5, OLD)], Limits(1000, -1, True), 0, Verdict(0, False)),
        ([(5, OLD), (5, OLD)], Limits(-1, -1, True), 0, Verdict(0, False)),
        ([(5, OLD), (5, OLD)], Limits(1000, 1, False), 3, Verdict(3, False)),
        ([(5, YOUNG)] * 4, Limits(-1, 10, True), 0, Verdict(20, False)),
        ([(5, YOUNG)] * 4, Limits(-1, 11, True), 0, Verdict(10, False)),
        ([(5, YOUNG)] * 4, Limits(-1, 0, True), 0, Verdict(30, False)),
        ([(5, YOUNG)] * 4, Limits(-1, 10, True), 25, Verdict(25, False)),
        ([(50, YOUNG), (5, YOUNG), (5, YOUNG)], Limits(-1, 20, True), 0, Verdict(0, False)),
        ([], Limits(0, 0, True), 7, Verdict(7, False)),
    ],
)
def test_the_table(
    facts: list[tuple[int, int]], limits: Limits, start: int, expected: Verdict
) -> None:
    assert judge(segments(*facts), limits, start, NOW) == expected


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 50), st.integers(-1, 12_000)), max_size=12),
    st.integers(-1, 5_000),
    st.integers(-1, 200),
    st.integers(0, 120),
)
def test_what_goes_had_to_go_and_what_stays_may_stay(
    facts: list[tuple[int, int]], age: int, size: int, start: int
) -> None:
    every = segments(*facts)
    limits = Limits(age, size, True)
    verdict = judge(every, limits, start, NOW)
    assert verdict.log_start >= start
    left = [each for each in every if each.next_offset > verdict.log_start]
    gone = [each for each in every if start < each.next_offset <= verdict.log_start]
    for each in gone:
        too_old = age >= 0 and 0 <= each.newest_ms < NOW - age
        behind = [e.size_bytes for e in every if e.first_offset > each.first_offset]
        larger = sum(behind) >= size >= 0
        assert too_old or larger
    if age >= 0 and left:
        assert not 0 <= left[0].newest_ms < NOW - age
    if size >= 0 and len(left) > 1:
        assert sum(each.size_bytes for each in left) - left[0].size_bytes < size
