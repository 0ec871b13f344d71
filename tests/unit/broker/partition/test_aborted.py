"""Aborted transactions of segments: look-ups against a list searched whole, and the bytes."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.partition.aborted import DECIDED, AbortedIndex, AbortedTransaction
from protocol.errors import DecodeError


def index_of(*rows: tuple[int, int, int, int], undecided: int = DECIDED) -> AbortedIndex:
    index = AbortedIndex()
    for row in rows:
        index.add(AbortedTransaction(*row))
    index.undecided = undecided
    return index


def test_only_what_overlaps_is_found_and_nothing_is_missed() -> None:
    index = index_of((1, 0, 5, 3), (2, 3, 9, 10), (1, 20, 30, 31))
    assert index.overlapping(0, 2) == ([(1, 0, 5, 3)], True)
    assert index.overlapping(0, 5) == ([(1, 0, 5, 3), (2, 3, 9, 10)], True)
    assert index.overlapping(6, 8) == ([(2, 3, 9, 10)], True)
    assert index.overlapping(10, 19) == ([], True)
    assert index.overlapping(9, 9) == ([(2, 3, 9, 10)], True)
    assert index.overlapping(31, 99) == ([], True)


def test_a_transaction_left_open_sends_the_search_into_the_next_segment() -> None:
    index = index_of((1, 0, 5, 3), undecided=3)
    assert index.overlapping(0, 2) == ([(1, 0, 5, 3)], True)
    assert index.overlapping(0, 3) == ([(1, 0, 5, 3)], False)
    assert index_of(undecided=3).overlapping(0, 2) == ([], True)
    assert index_of(undecided=3).overlapping(0, 3) == ([], False)


def test_bytes_and_back_and_no_cut_passes() -> None:
    index = index_of((1, 0, 5, 3), (2, 3, 9, 10), undecided=7)
    data = b"xx" + index.encode()
    again, end = AbortedIndex.decode(data, 2)
    assert end == len(data)
    assert (again.all(), again.undecided) == (index.all(), 7)
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
