"""Batches where they lie, and rows of bytes against slices."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.compaction.cleaner.block import Block, rows_of
from tailrace.core.runtime.child_process import Joined


@given(st.binary(min_size=1, max_size=40), st.data())
def test_rows_are_slices_with_zeros_behind_the_end(data: bytes, draw: st.DataObject) -> None:
    width = draw.draw(st.integers(1, 2 * len(data)))
    places = draw.draw(st.lists(st.integers(0, len(data) - 1), max_size=5))
    rows = rows_of(memoryview(data), np.array(places, np.int64), width)
    assert rows.shape == (len(places), width)
    assert [bytes(row) for row in rows] == [
        data[at : at + width].ljust(width, b"\0") for at in places
    ]


@pytest.mark.parametrize("sizes", [[], [3], [3, 0, 4]])
def test_a_block_has_the_batches_it_was_made_of(sizes: list[int]) -> None:
    whole = memoryview(bytes(range(sum(sizes))))
    there = Joined(whole, sizes)
    for block in (Block.of(there), Block.of([bytes(each) for each in there])):
        assert [block.batch(at) for at in range(len(sizes))] == list(there)
        assert block.sizes.tolist() == sizes
        some = block.take(np.arange(len(sizes))[1:])
        assert [some.batch(at) for at in range(len(some.starts))] == there[1:]


def test_what_lies_in_one_buffer_is_not_copied() -> None:
    whole = memoryview(b"one two")
    assert Block.of(Joined(whole, [4, 3])).data is whole
