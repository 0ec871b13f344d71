from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.core.errors import CorruptData, MetadataConflict
from tailrace.core.log.segments import SegmentEnd, SegmentList, last_dlsn, min_active
from tailrace.core.metadata.segment_metadata import SegmentMetadata, Truncation
from tailrace.protocol.distributedlog.dlsn import DLSN
from tailrace.protocol.ids import LedgerId


def started(lssn: int, first_txid: int = 0) -> SegmentMetadata:
    return SegmentMetadata(lssn=lssn, ledger_id=LedgerId(100 + lssn), first_txid=first_txid)


def done(lssn: int, first_txid: int, last_txid: int, count: int = 1) -> SegmentMetadata:
    return replace(
        started(lssn, first_txid),
        in_progress=False,
        last_txid=last_txid,
        record_count=count,
        last_entry_id=count,
        last_slot=0,
        start_sequence_id=0,
    )


def test_order_and_duplicates() -> None:
    found = SegmentList.of([started(3), done(2, 1, 5), started(2), done(1, 0, 1)])
    assert [(s.lssn, s.in_progress) for s in found] == [(1, False), (2, False), (3, True)]
    assert SegmentList.of(reversed(list(found))) == found


def test_a_hole_is_corrupt() -> None:
    with pytest.raises(CorruptData, match="hole"):
        SegmentList.of([done(1, 0, 1), done(3, 1, 2)])
    segments = SegmentList.of([done(1, 0, 1), done(2, 1, 2), done(3, 2, 3)])
    with pytest.raises(CorruptData):
        segments.without(2)
    assert len(segments.without(1)) == len(segments.without(3)) == 2


def bare(first_txid: int, last_txid: int | None = None) -> SegmentMetadata:
    """A segment of version 1: without a number."""
    segment = replace(started(0, first_txid), ledger_id=LedgerId(first_txid), version=1)
    return segment if last_txid is None else replace(
        segment, in_progress=False, last_txid=last_txid
    )  # fmt: skip


def test_segments_without_a_number_have_that_of_their_place() -> None:
    """reference DistributedLog 4.4: heads of version 1."""
    found = SegmentList.of([bare(10, 19), bare(20), bare(0, 9), bare(20, 29)])
    assert [(s.lssn, s.first_txid, s.in_progress) for s in found] == [
        (-2, 0, False), (-1, 10, False), (0, 20, False)
    ]  # fmt: skip
    assert found.next_lssn(0) == 1
    found = SegmentList.of([done(7, 30, 39), bare(10, 19), bare(20, 29), done(8, 40, 49)])
    assert [s.lssn for s in found] == [5, 6, 7, 8]
    assert found.find(5) == replace(bare(10, 19), lssn=5)
    found = SegmentList.of([done(7, 30, 39), bare(40, 49), bare(50)])
    assert [s.lssn for s in found] == [7, 8, 9]
    assert found.next_lssn(9) == 10
    with pytest.raises(CorruptData, match="hole"):
        SegmentList.of([done(7, 0, 9), bare(10, 19), done(9, 20, 29)])


@given(count=st.integers(1, 6), lssn=st.integers(1, 9), completed=st.booleans())
def test_changes_are_what_a_new_list_would_be(*, count: int, lssn: int, completed: bool) -> None:
    segments = [done(2 + at, 0, 1) for at in range(count)]
    new = done(lssn, 0, 5) if completed else started(lssn)
    others = [s for s in segments if s.lssn != lssn]
    known = SegmentList.of(segments)
    try:
        expected = SegmentList.of([*others, new])
    except CorruptData:
        with pytest.raises(CorruptData):
            known.with_segment(new)
    else:
        assert known.with_segment(new) == expected
    if lssn in (2, 1 + count):
        assert known.without(lssn) == SegmentList.of(others)
    else:
        with pytest.raises(CorruptData):
            known.without(lssn)


def test_find() -> None:
    segments = SegmentList.of([done(4, 0, 1), done(5, 1, 2), started(6, 2)])
    at = [segments.at_or_after(lssn) for lssn in (0, 4, 5, 6, 7)]
    assert [s and s.lssn for s in at] == [4, 4, 5, 6, None]
    assert segments.find(3) is None
    assert segments.find(7) is None
    assert segments.find(5) == segments.segments[1]
    assert SegmentList().at_or_after(0) is None
    assert SegmentList().last is None


@pytest.mark.parametrize(
    ("lssns", "counter", "expected"),
    [
        ([], 0, 1),
        ([], 1, 1),  # the only segment was empty and was deleted
        ([1, 2], 2, 3),
        ([1, 2], 3, 3),  # an empty third segment was deleted
        ([7], 7, 8),
        ([1, 2], 4, None),
        ([1, 2], 1, None),
        ([], 5, None),
    ],
)
def test_next_lssn(lssns: list[int], counter: int, expected: int | None) -> None:
    """reference DistributedLog 4.4."""
    segments = SegmentList.of([done(lssn, 0, 1) for lssn in lssns])
    if expected is None:
        with pytest.raises(MetadataConflict):
            segments.next_lssn(counter)
    else:
        assert segments.next_lssn(counter) == expected


def test_completion_counts_on_from_the_segment_before() -> None:
    end = SegmentEnd(20, 5, 9, 1)
    first = SegmentList.of([started(1, 3)]).completed(started(1, 3), end, 77)
    assert first == replace(
        started(1, 3),
        in_progress=False,
        last_txid=20,
        record_count=5,
        last_entry_id=9,
        last_slot=1,
        completion_time_ms=77,
        start_sequence_id=0,
    )
    segments = SegmentList.of([first, started(2, 20)])
    assert segments.completed(started(2, 20), end, 78).start_sequence_id == 5
    with pytest.raises(AssertionError):
        SegmentList.of([started(1), started(2)]).completed(started(2), end, 1)


@pytest.mark.parametrize(("version", "start", "expected"), [(4, -1, 0), (5, -1, -1), (5, 7, 8)])
def test_start_sequence_id_after_other_versions(version: int, start: int, expected: int) -> None:
    """reference DistributedLog 0: after version 4 it is 0; an unknown one stays unknown."""
    before = replace(done(1, 0, 1), version=version, start_sequence_id=start)
    segments = SegmentList.of([before, started(2, 1)])
    completed = segments.completed(started(2, 1), SegmentEnd(2, 1, 1, 0), 1)
    assert completed.start_sequence_id == expected


def test_a_segment_says_its_first_position_that_counts_and_its_last_one() -> None:
    cut = replace(
        done(2, 10, 20),
        truncation=Truncation.PARTIALLY_TRUNCATED,
        min_active_entry_id=4,
        min_active_slot=2,
    )
    assert min_active(cut) == DLSN(2, 4, 2)
    assert last_dlsn(cut) == DLSN(2, 1, 0)


@st.composite
def logs(draw: st.DrawFn) -> tuple[SegmentList, list[list[int]]]:
    """Segments as a writer makes them, each with the txids of its records."""
    segments, txids, last = [], [], draw(st.integers(0, 3))
    count = draw(st.integers(1, 5))
    for lssn in range(1, count + 1):
        gaps = draw(st.lists(st.integers(0, 3), min_size=1, max_size=4))
        records = [last := last + gap for gap in gaps]
        rolled = bool(txids) and draw(st.booleans())
        first = txids[-1][-1] if rolled else records[0]
        segment = done(lssn, first, records[-1], len(records))
        if lssn == count and draw(st.booleans()):
            segment = started(lssn, first)
        segments.append(segment)
        txids.append(records)
    return SegmentList.of(segments), txids


@given(logs(), st.integers(0, 60))
def test_search_begins_where_the_record_is(
    log: tuple[SegmentList, list[list[int]]], txid: int
) -> None:
    """From the segment on, the first record that is not less is the first of all."""
    segments, txids = log
    begin = segments.first_not_less(txid)
    assert begin is not None
    everything = [(lssn, t) for lssn, ts in enumerate(txids, 1) for t in ts if t >= txid]
    after = [(lssn, t) for lssn, t in everything if lssn >= begin.lssn]
    assert after == everything, "the search begins behind the record"
    if everything:
        assert everything[0][0] - begin.lssn <= 1
