"""The tail cache: what it hands out is what was put in, and the bytes stay bounded."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.broker.partition import tail_cache
from tailrace.broker.partition.found import Found
from tailrace.broker.partition.tail_cache import (
    BATCH_OVERHEAD_BYTES,
    COPIED_BYTES_MAX,
    PartitionTail,
    TailCache,
    bytes_of,
)


def cached(base: int, count: int, size: int) -> tuple[int, memoryview]:
    return base + count - 1, memoryview(base.to_bytes(8, "big") + bytes(size))


def shown(found: Found | None) -> list[int] | None:
    """Return the base offsets of what was found."""
    return None if found is None else [int.from_bytes(part[:8], "big") for part in found.parts]


def fill(tail: PartitionTail, *batches: tuple[int, int, int]) -> None:
    for batch in batches:
        tail.append(*cached(*batch))


def test_reading_begins_with_the_batch_that_holds_the_offset() -> None:
    tail = TailCache(1 << 20).partition()
    fill(tail, (10, 5, 92), (15, 5, 92), (20, 5, 92))
    assert shown(tail.read(10, 1000, at_least_one=True)) == [10, 15, 20]
    assert shown(tail.read(14, 1000, at_least_one=True)) == [10, 15, 20]
    assert shown(tail.read(15, 1000, at_least_one=True)) == [15, 20]
    assert shown(tail.read(24, 1000, at_least_one=True)) == [20]
    assert tail.read(9, 1000, at_least_one=True) is None
    assert tail.read(25, 1000, at_least_one=True) is None
    assert shown(tail.read(12, 1000, at_least_one=True, end=20)) == [10, 15]
    assert shown(tail.read(12, 1, at_least_one=True, end=15)) == [10]


def test_it_holds_what_begins_with_or_behind_its_oldest_batch() -> None:
    cache = TailCache(2 * (100 + BATCH_OVERHEAD_BYTES))
    tail = cache.partition()
    assert not tail.holds(0)
    fill(tail, (10, 5, 92), (15, 5, 92))
    assert [tail.holds(offset) for offset in (9, 10, 14, 20, 21)] == [False, True, True, True, True]
    fill(tail, (20, 5, 92))
    assert [tail.holds(offset) for offset in (14, 15)] == [False, True], "the oldest went"
    tail.clear()
    assert not tail.holds(25)


def test_limits_cut_between_batches_and_spare_the_first() -> None:
    tail = TailCache(1 << 20).partition()
    fill(tail, (0, 1, 92), (1, 1, 92), (2, 1, 92))
    two = tail.read(0, 299, at_least_one=True)
    assert two is not None
    assert (shown(two), two.size, two.limited) == ([0, 1], 200, True)
    one = tail.read(0, 1, at_least_one=True)
    assert one is not None
    assert (shown(one), one.limited) == ([0], True)
    none = tail.read(0, 1, at_least_one=False)
    assert none is not None
    assert (shown(none), none.limited) == ([], True)
    all_of_it = tail.read(0, 300, at_least_one=False)
    assert all_of_it is not None
    assert not all_of_it.limited


def test_the_oldest_batch_of_all_partitions_goes_first() -> None:
    cache = TailCache(3 * (100 + BATCH_OVERHEAD_BYTES))
    a, b = cache.partition(), cache.partition()
    fill(a, (0, 1, 92))
    fill(b, (0, 1, 92), (1, 1, 92), (2, 1, 92))
    assert a.read(0, 1000, at_least_one=True) is None
    assert shown(b.read(0, 1000, at_least_one=True)) == [0, 1, 2]
    assert cache.evicted_total == 1


def test_the_number_of_batches_is_bounded_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tail_cache, "BATCHES_MAX", 3)
    cache = TailCache(1 << 20)
    a, b = cache.partition(), cache.partition()
    fill(a, (0, 1, 92))
    fill(b, (0, 1, 92), (1, 1, 92), (2, 1, 92), (3, 1, 92))
    assert a.read(0, 1000, at_least_one=True) is None
    assert shown(b.read(1, 1000, at_least_one=True)) == [1, 2, 3]
    assert len(cache) == 3
    assert cache.used == 3 * (100 + BATCH_OVERHEAD_BYTES)


def test_small_batches_let_their_requests_go_and_large_ones_are_not_copied() -> None:
    tail = TailCache(1 << 20).partition()
    request = bytearray(COPIED_BYTES_MAX + 1 + COPIED_BYTES_MAX)
    large = memoryview(request)[: COPIED_BYTES_MAX + 1]
    small = memoryview(request)[COPIED_BYTES_MAX + 1 :]
    tail.append(0, large)
    tail.append(1, small)
    first, second = tail.read(0, 1 << 20, at_least_one=True).parts  # type: ignore[union-attr]
    assert first is large
    assert isinstance(second, bytes)
    assert second == small


def test_it_grows_with_the_memory_within_bounds() -> None:
    gib = 1 << 30
    assert [bytes_of(n * gib) for n in (1, 4, 16, 24, 32, 512)] == [
        gib // 8,
        gib // 8,
        gib // 2,
        gib * 3 // 4,
        gib,
        gib,
    ]


def test_a_batch_above_the_limit_is_not_kept() -> None:
    cache = TailCache(100)
    tail = cache.partition()
    fill(tail, (0, 1, 500))
    assert (cache.used, tail.read(0, 1000, at_least_one=True)) == (0, None)


def test_clearing_gives_the_bytes_back_once() -> None:
    cache = TailCache(1 << 20)
    a, b = cache.partition(), cache.partition()
    fill(a, (0, 1, 92))
    fill(b, (0, 1, 92))
    a.clear()
    a.clear()
    assert cache.used == 100 + BATCH_OVERHEAD_BYTES
    cache.limit = 0
    fill(b, (1, 1, 92))
    assert cache.used == 0


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(1, 5), st.integers(0, 3000)), max_size=300),
    st.integers(1, 20_000),
)
def test_what_is_cached_is_the_newest_part_of_each_partition(
    steps: list[tuple[int, int, int]], limit: int
) -> None:
    cache = TailCache(limit)
    tails = [cache.partition() for _ in range(3)]
    written: list[list[tuple[int, int]]] = [[], [], []]
    ends = [0, 0, 0]
    for which, count, size in steps:
        base = ends[which]
        tails[which].append(*cached(base, count, size))
        written[which].append((base, base + count - 1))
        ends[which] += count
        assert cache.used <= limit
    for tail, batches, end in zip(tails, written, ends, strict=True):
        kept = [base for base, last in batches if tail.read(last, 1, at_least_one=True)]
        assert kept == [base for base, _ in batches][len(batches) - len(kept) :]
        for base, last in batches:
            if base in kept:
                found = shown(tail.read(last, 1 << 30, at_least_one=True))
                assert found == [b for b, _ in batches if b >= base]
        assert tail.read(end, 1, at_least_one=True) is None


def test_a_long_run_does_not_grow_the_lists() -> None:
    cache = TailCache(10 * (8 + BATCH_OVERHEAD_BYTES))
    tail = cache.partition()
    for base in range(20_000):
        tail.append(*cached(base, 1, 0))
    assert len(tail._batches) < 5000
    newest = tail.read(19_990, 1 << 20, at_least_one=True)
    assert newest is not None
    assert len(newest.parts) == 10


def test_what_is_dropped_early_is_not_asked_for_again() -> None:
    cache = TailCache(4 * (100 + BATCH_OVERHEAD_BYTES))
    tail, other = cache.partition(), cache.partition()
    fill(tail, (0, 1, 92), (1, 1, 92), (2, 1, 92))
    tail.drop_before(2)
    assert cache.used == 100 + BATCH_OVERHEAD_BYTES
    assert tail.read(1, 1000, at_least_one=True) is None
    assert shown(tail.read(2, 1000, at_least_one=True)) == [2]
    fill(other, (0, 1, 92), (1, 1, 92), (2, 1, 92), (3, 1, 92))  # one too many: only then 2 goes
    assert tail.read(2, 1000, at_least_one=True) is None
    assert shown(other.read(0, 1000, at_least_one=True)) == [0, 1, 2, 3]
    assert cache.used == cache.limit


@pytest.mark.parametrize("how", ["drop_before", "clear"])
def test_what_went_early_leaves_no_places_behind(how: str) -> None:
    cache = TailCache(1 << 30)
    other = cache.partition()
    fill(other, (0, 1, 92))
    tail = cache.partition()
    for offset in range(5000):
        fill(tail, (offset, 1, 92))
        if how == "clear":
            tail.clear()
        else:
            tail.drop_before(offset + 1)
    assert len(cache) < 2100
    cache.limit = cache.used
    fill(tail, (5000, 1, 92))
    assert other.read(0, 1000, at_least_one=True) is None, "the oldest one goes first"
    assert cache.used <= cache.limit
    assert shown(tail.read(5000, 1000, at_least_one=True)) == [5000]
