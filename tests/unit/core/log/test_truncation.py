from dataclasses import replace

import pytest

from tailrace.core.log.segments import SegmentList
from tailrace.core.log.truncation import plan_purge, plan_truncation
from tailrace.core.metadata.segment_metadata import SegmentMetadata, Truncation
from tailrace.protocol.distributedlog.dlsn import DLSN
from tests.unit.core.log.test_segments import done, started

ACTIVE, PARTIAL, GONE = Truncation.ACTIVE, Truncation.PARTIALLY_TRUNCATED, Truncation.TRUNCATED


def ended(lssn: int) -> SegmentMetadata:
    return replace(done(lssn, lssn * 10, lssn * 10 + 9), last_entry_id=9, last_slot=2)


SEGMENTS = SegmentList.of([ended(1), ended(2), ended(3), started(4, 39)])


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        (DLSN(1, 0, 0), {}),
        (DLSN(1, 0, 1), {1: (PARTIAL, 0, 1)}),
        (DLSN(1, 9, 2), {1: (PARTIAL, 9, 2)}),
        (DLSN(1, 9, 3), {1: (GONE, 0, 0)}),
        (DLSN(2, 0, 0), {1: (GONE, 0, 0)}),
        (DLSN(2, 5, 0), {1: (GONE, 0, 0), 2: (PARTIAL, 5, 0)}),
        (DLSN(4, 5, 0), {1: (GONE, 0, 0), 2: (GONE, 0, 0), 3: (GONE, 0, 0)}),
        (DLSN(0, -1, -1), {}),
    ],
)
def test_truncation(before: DLSN, expected: dict[int, tuple[Truncation, int, int]]) -> None:
    """reference DistributedLog 8; what is in progress is never touched."""
    changed = plan_truncation(SEGMENTS, before)
    assert {
        s.lssn: (s.truncation, s.min_active_entry_id, s.min_active_slot) for s in changed
    } == expected


def test_truncation_never_goes_back() -> None:
    segments = SEGMENTS
    for segment in plan_truncation(segments, DLSN(2, 5, 0)):
        segments = segments.with_segment(segment)
    for before in (DLSN(2, 5, 0), DLSN(2, 4, 0), DLSN(1, 3, 0)):
        assert plan_truncation(segments, before) == []
    assert [s.lssn for s in plan_truncation(segments, DLSN(2, 6, 0))] == [2]
    assert plan_truncation(segments, DLSN(3, 0, 0))[0].truncation is GONE


@pytest.mark.parametrize(
    ("before_lssn", "expected"), [(0, []), (1, []), (2, [1]), (3, [1, 2]), (99, [1, 2])]
)
def test_purge_keeps_the_last_completed(before_lssn: int, expected: list[int]) -> None:
    assert [s.lssn for s in plan_purge(SEGMENTS, before_lssn)] == expected
    assert plan_purge(SegmentList.of([ended(1)]), 99) == []
    assert plan_purge(SegmentList.of([started(1)]), 99) == []
    assert plan_purge(SegmentList(), 99) == []
