"""Aborted transactions of segments: look-ups against a list searched whole, and the bytes."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.broker.partition.aborted import AbortedIndex, AbortedTransaction
from tailrace.protocol.errors import DecodeError


def index_of(*rows: tuple[int, int, int, int], stable_end: int = 0) -> AbortedIndex:
    index = AbortedIndex()
    for row in rows:
        index.add(AbortedTransaction(*row))
    index.stable_end = stable_end
    return index


def test_only_what_overlaps_is_found_and_nothing_is_missed() -> None:
    index = index_of((1, 0, 5, 3), (2, 3, 9, 10), (1, 20, 30, 31), stable_end=40)
    assert index.overlapping(0, 2) == ([(1, 0, 5, 3)], True)
    assert index.overlapping(0, 5) == ([(1, 0, 5, 3), (2, 3, 9, 10)], True)
    assert index.overlapping(6, 8) == ([(2, 3, 9, 10)], True)
    assert index.overlapping(10, 19) == ([], True)
    assert index.overlapping(9, 9) == ([(2, 3, 9, 10)], True)
    assert index.overlapping(31, 39) == ([], True)
    assert index.overlapping(31, 40) == ([], False), "the range goes on in the next segment"


def test_a_transaction_left_open_sends_the_search_into_the_next_segment() -> None:
    index = index_of((1, 0, 5, 3), stable_end=3)
    assert index.overlapping(0, 2) == ([(1, 0, 5, 3)], True)
    assert index.overlapping(0, 3) == ([(1, 0, 5, 3)], False)
    assert index_of(stable_end=3).overlapping(0, 2) == ([], True)
    assert index_of(stable_end=3).overlapping(0, 3) == ([], False)


def test_bytes_and_back_and_no_cut_passes() -> None:
    index = index_of((1, 0, 5, 3), (2, 3, 9, 10), stable_end=7)
    data = b"xx" + index.encode()
    again, end = AbortedIndex.decode(data, 2)
    assert end == len(data)
    assert (again.all(), again.stable_end) == (index.all(), 7)
    for length in range(2, len(data)):
        with pytest.raises(DecodeError):
            AbortedIndex.decode(data[:length], 2)
    backwards = index_of((2, 3, 9, 10), (1, 0, 5, 3)).encode()
    with pytest.raises(DecodeError, match="do not rise"):
        AbortedIndex.decode(backwards)


@given(st.binary(max_size=120))
def test_random_bytes_decode_or_are_refused(data: bytes) -> None:
    with contextlib.suppress(DecodeError):
        AbortedIndex.decode(data)
