"""Which of the oldest segments are worth being put together."""

from hypothesis import given
from hypothesis import strategies as st

from tailrace.compaction.cleaner.cleanable import CleanableSegment
from tailrace.compaction.cleaner.merging import COPIED_PER_SEGMENT, SEGMENTS_MAX, mergeable

MIB = 1 << 20
GIB = 1 << 30


def segments(*sizes: int, active: bool = True) -> list[CleanableSegment]:
    """Return segments of 10 offsets each; the last one is still written."""
    return [
        CleanableSegment(
            number, 10 * number, 10 * number + 10, size, -1, -1, active and number == len(sizes)
        )
        for number, size in enumerate(sizes, 1)
    ]


def chosen(*sizes: int, segment_bytes: int = GIB, clean: int = 1 << 40) -> list[int]:
    return [each.lssn for each in mergeable(segments(*sizes, 0), segment_bytes, clean)]


def test_empty_and_small_ones_are_merged() -> None:
    assert chosen(0, 0, 0) == [1, 2, 3]
    assert chosen(100, 0, 0, 200) == [1, 2, 3, 4]
    assert chosen(0, 0, GIB) == [1, 2], "a large one is not copied for two"


def test_a_large_one_is_copied_once_enough_are_behind_it() -> None:
    assert chosen(100 * MIB, *[0] * 6) == []
    assert chosen(100 * MIB, *[0] * 7) == list(range(1, 9))
    assert chosen(GIB, *[0] * 63) == []
    assert chosen(GIB, *[0] * 64) == list(range(1, 66))


def test_they_fit_into_a_segment_of_the_topic() -> None:
    assert chosen(400, 400, 400, segment_bytes=1000) == [1, 2]
    assert chosen(1001, 0, 0, segment_bytes=1000) == []
    assert chosen(0, 0, segment_bytes=0) == [1, 2]
    assert chosen(1, 1, segment_bytes=0) == []


def test_what_is_not_clean_or_still_written_is_left() -> None:
    assert chosen(0, 0, 0, clean=30) == [1, 2]
    assert chosen(0, 0, 0, clean=0) == []
    assert mergeable(segments(0), GIB, 1 << 40) == []
    assert mergeable([], GIB, 0) == []


@given(
    st.lists(st.sampled_from([0, 1, MIB, 20 * MIB, 300 * MIB]), max_size=12),
    st.sampled_from([0, MIB, 512 * MIB, 1 << 40]),
    st.integers(0, 150),
)
def test_it_is_the_longest_prefix_that_pays(sizes: list[int], limit: int, clean: int) -> None:
    listed = segments(*sizes, 0)
    want = 0
    for count in range(1, len(listed)):
        some = listed[:count]
        size = sum(each.size_bytes for each in some)
        is_clean = some[-1].next_offset <= clean
        if is_clean and size <= limit and size <= COPIED_PER_SEGMENT * (count - 1):
            want = count
    assert mergeable(listed, limit, clean) == listed[:want]


def test_no_more_at_once_than_one_change_of_the_metadata_takes() -> None:
    assert chosen(*[0] * 500) == list(range(1, SEGMENTS_MAX + 1))
