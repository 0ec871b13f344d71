"""The key summary against a dict, and its size."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.compaction.cleaner.digests import digest_keys
from tailrace.compaction.cleaner.key_summary import ABSENT, SLOT_BYTES, KeySummary, Words

KEYS = st.lists(st.binary(max_size=2), max_size=60)
WORDS = st.tuples(st.integers(0, 3), st.integers(0, 3))  # few: digests collide in their places


def digests_of(pairs: list[tuple[int, int]]) -> Words:
    return np.array(pairs, np.uint64).reshape(-1, 2)


@given(st.lists(st.lists(WORDS, max_size=20), max_size=8), st.integers(3, 40))
def test_it_is_a_dict_that_ends_when_it_is_full(
    puts: list[list[tuple[int, int]]], slots: int
) -> None:
    summary = KeySummary(slots * SLOT_BYTES)
    oracle: dict[tuple[int, int], int] = {}
    offset = 0
    for pairs in puts:
        taken = summary.put(digests_of(pairs), np.arange(offset, offset + len(pairs)))
        assert taken == put_dumbly(oracle, pairs, offset, summary.capacity)
        offset += len(pairs)
    assert len(summary) == len(oracle)
    assert summary.is_full == (len(oracle) == summary.capacity)
    asked = [(a, b) for a in range(5) for b in range(5)]
    expected = [oracle.get(stored_as(pair), ABSENT) for pair in asked]
    assert summary.find(digests_of(asked)).tolist() == expected


@given(
    st.lists(st.lists(WORDS, min_size=1, max_size=20), max_size=8),
    st.integers(0, 5),
    st.data(),
)
def test_the_offsets_alone_say_which_records_are_latest(
    puts: list[list[tuple[int, int]]], spare: int, data: st.DataObject
) -> None:
    summary = KeySummary(1000 * SLOT_BYTES)
    summary.put(digests_of([(7, 7)]), np.array([77]))
    summary.clear(sum(map(len, puts)) + spare)  # fewer slots than before, none of them taken
    oracle: dict[tuple[int, int], int] = {}
    offset = 0
    for pairs in puts:
        offset += data.draw(st.integers(0, 3))  # offsets have gaps
        assert summary.put(digests_of(pairs), np.arange(offset, offset + len(pairs))) == len(pairs)
        put_dumbly(oracle, pairs, offset, summary.capacity)
        offset += len(pairs)
    summary.keep_offsets()
    summary.keep_offsets()
    asked = sorted(data.draw(st.sets(st.integers(0, max(offset, 1)))))
    expected = [each in oracle.values() for each in asked]
    assert summary.is_latest(np.array(asked, np.int64)).tolist() == expected
    summary.clear()
    assert summary.find(digests_of([*oracle, (7, 7)])).tolist() == [ABSENT] * (len(oracle) + 1)


def test_few_keys_take_little_of_a_large_buffer() -> None:
    summary = KeySummary(1_000_000 * SLOT_BYTES)
    whole = summary.slots
    summary.clear(10_000)
    assert 10_000 <= summary.capacity <= summary.slots < 12_000
    summary.clear(whole)
    assert summary.slots == whole


def put_dumbly(
    oracle: dict[tuple[int, int], int], pairs: list[tuple[int, int]], offset: int, capacity: int
) -> int:
    for index, pair in enumerate(pairs):
        if stored_as(pair) not in oracle and len(oracle) == capacity:
            return index
        oracle[stored_as(pair)] = offset + index
    return len(pairs)


def stored_as(pair: tuple[int, int]) -> tuple[int, int]:
    return (1, 0) if pair == (0, 0) else pair


@given(KEYS, KEYS)
def test_keys_are_told_apart_by_their_digests(keys: list[bytes], others: list[bytes]) -> None:
    summary = KeySummary(100 * SLOT_BYTES)
    summary.put(digest_keys(keys), np.arange(len(keys)))
    last = {key: offset for offset, key in enumerate(keys)}
    found = summary.find(digest_keys(others))
    assert found.tolist() == [last.get(key, ABSENT) for key in others]


def test_get_when_full_ends() -> None:
    summary = KeySummary(7 * SLOT_BYTES, load_factor=1.0)
    keys = digest_keys([b"%d" % i for i in range(20)])
    assert summary.put(keys, np.arange(20)) == 7
    assert summary.is_full
    assert summary.find(keys).tolist() == [*range(7), *[ABSENT] * 13]


def test_clear_forgets_keys_and_the_latest_offset() -> None:
    summary = KeySummary(11 * SLOT_BYTES)
    summary.put(digest_keys([b"a"]), np.array([5]))
    assert summary.latest_offset == 5
    summary.clear()
    assert (len(summary), summary.latest_offset) == (0, ABSENT)
    assert summary.find(digest_keys([b"a"])).tolist() == [ABSENT]


def test_a_key_costs_24_bytes() -> None:
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    summary = KeySummary(24_000_000)
    taken = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert summary.size_bytes == 24 * summary.slots <= 24_000_000
    assert summary.slots > 999_900
    assert summary.capacity == int(summary.slots * 0.9)
    assert taken < summary.size_bytes + 10_000


def test_filling_it_allocates_nothing_that_stays() -> None:
    summary = KeySummary(24 * 10_007)
    keys = digest_keys([b"%d" % i for i in range(9_006)])
    tracemalloc.start()
    summary.put(keys, np.arange(9_006))
    left = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert len(summary) == summary.capacity == 9_006
    assert left < 10_000


@pytest.mark.parametrize("size_bytes", [0, 23, 47])
def test_too_little_memory_is_refused(size_bytes: int) -> None:
    with pytest.raises(ValueError, match="hold no key"):
        KeySummary(size_bytes)
