"""What of a log can be cleaned, and whether it is due."""

import pytest

from tailrace.compaction.cleaner.choosing import Look, judge
from tailrace.compaction.cleaner.cleanable import CleanableSegment, CleanSettings

NOW = 1_000_000
SETTINGS = CleanSettings(min_cleanable_dirty_ratio=0.5)


def log(*sizes: int, active: int = 10, time: int = 0) -> list[CleanableSegment]:
    """Return segments of ten offsets each, the last one active; the n-th is `time` + n ms old."""
    segments = [
        CleanableSegment(
            lssn=n + 1,
            base_offset=10 * n,
            next_offset=10 * n + 10,
            size_bytes=size,
            first_timestamp=time + n,
            max_timestamp=time + n,
            in_progress=False,
        )
        for n, size in enumerate(sizes)
    ]
    at = 10 * len(sizes)
    return [*segments, CleanableSegment(len(sizes) + 1, at, at + 5, active, NOW, NOW, True)]


def looked(
    segments: list[CleanableSegment],
    settings: CleanSettings = SETTINGS,
    *,
    start: int = 0,
    noted: int = 0,
    stable: int = 10**6,
) -> Look:
    return judge("t-0", segments, settings, (start, noted, stable), NOW)


def test_all_but_the_active_segment_is_head_at_first() -> None:
    look = looked(log(100, 200))
    assert (look.first_dirty, look.first_uncleanable) == (0, 20)
    assert (look.clean_bytes, look.cleanable_bytes, look.total_bytes) == (0, 300, 310)
    assert (look.ratio, look.is_due, look.is_reset) == (1.0, True, False)


def test_a_log_with_nothing_but_an_active_segment_is_left_alone() -> None:
    look = looked(log())
    assert (look.cleanable_bytes, look.ratio, look.is_due) == (0, 0.0, False)


def test_an_empty_log_is_left_alone() -> None:
    assert not looked([]).is_due


@pytest.mark.parametrize(("head", "is_due"), [(99, False), (100, False), (101, True)])
def test_the_ratio_must_be_exceeded(head: int, is_due: bool) -> None:
    assert looked(log(100, head), noted=10).is_due is is_due


def test_ratio_0_needs_one_dirty_byte() -> None:
    every = CleanSettings(min_cleanable_dirty_ratio=0.0)
    assert looked(log(1000, 1), every, noted=10).is_due
    assert not looked(log(1000), every, noted=10).is_due


def test_undecided_transactions_bound_what_can_be_cleaned() -> None:
    look = looked(log(100, 200, 300), stable=15)
    assert (look.first_uncleanable, look.cleanable_bytes) == (15, 100)


def test_young_segments_are_left_alone() -> None:
    segments = log(100, 200, 300, time=NOW - 51)
    look = looked(segments, CleanSettings(min_compaction_lag_ms=50))
    assert (look.first_uncleanable, look.cleanable_bytes) == (20, 300)
    assert looked(segments, CleanSettings(min_compaction_lag_ms=0)).first_uncleanable == 30


def test_an_overdue_log_is_due_whatever_its_ratio() -> None:
    lazy = CleanSettings(min_cleanable_dirty_ratio=1.0, max_compaction_lag_ms=100)
    look = looked(log(1000, 1, time=NOW - 200), lazy, noted=10)
    assert (look.delay_ms, look.is_due) == (99, True)
    assert not looked(log(1000, 1, time=NOW - 50), lazy, noted=10).is_due


def test_without_a_first_time_the_largest_one_counts() -> None:
    lazy = CleanSettings(max_compaction_lag_ms=100)
    unknown = [each._replace(first_timestamp=-1) for each in log(10, time=NOW - 300)]
    assert looked(unknown, lazy).delay_ms == 200
    timeless = [each._replace(first_timestamp=-1, max_timestamp=-1) for each in log(10)]
    assert looked(timeless, lazy).delay_ms == 0


@pytest.mark.parametrize("noted", [5, 99])
def test_a_noted_end_outside_the_log_is_given_up(noted: int) -> None:
    look = looked(log(100, 200, 300)[1:], noted=noted, start=10)
    assert (look.first_dirty, look.is_reset) == (10, True)
