"""The sparse index: look-ups against a scan of everything, and the codec."""

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.broker.partition import offsets as module
from tailrace.broker.partition.offsets import SegmentIndex
from tailrace.protocol.errors import DecodeError


class Batch:
    def __init__(self, base: int, last: int, entry: int, size: int, timestamp: int) -> None:
        self.base, self.last, self.entry = base, last, entry
        self.size, self.timestamp = size, timestamp


raw = st.lists(
    st.tuples(st.integers(1, 9), st.integers(1, 60), st.integers(-1, 100), st.booleans()),
    max_size=60,
)


def build(
    steps: list[tuple[int, int, int, bool]], first: int = 100
) -> tuple[list[Batch], SegmentIndex]:
    batches: list[Batch] = []
    index, offset, entry = SegmentIndex(first), first, 0
    for count, size, timestamp, same_entry in steps:
        entry += not same_entry
        batches.append(Batch(offset, offset + count - 1, entry, size, timestamp))
        index.add(offset, offset + count - 1, entry, size, timestamp, count)
        offset += count
    return batches, index


@pytest.fixture(autouse=True)
def small_points(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "POINT_BYTES", 100)


@settings(max_examples=200, deadline=None)
@given(raw)
def test_a_scan_from_the_index_meets_the_offset(steps: list[tuple[int, int, int, bool]]) -> None:
    batches, index = build(steps)
    for batch in batches:
        for offset in (batch.base, batch.last):
            entry = index.entry_before(offset)
            assert entry is not None
            assert entry <= batch.entry
            between = [b.size for b in batches if entry < b.entry and b.base < batch.base]
            assert sum(between) <= 100 + 60
    assert index.entry_before(99) is None


@settings(max_examples=200, deadline=None)
@given(raw, st.integers(-1, 101))
def test_a_scan_from_the_index_meets_the_first_batch_of_a_time(
    steps: list[tuple[int, int, int, bool]], timestamp: int
) -> None:
    batches, index = build(steps)
    wanted = next((b for b in batches if b.timestamp >= timestamp), None)
    start = index.offset_before(timestamp)
    if wanted is None:
        assert start is None
    elif timestamp >= 0:
        assert start is not None
        assert start <= wanted.base


@settings(max_examples=100, deadline=None)
@given(raw)
def test_totals_and_codec(steps: list[tuple[int, int, int, bool]]) -> None:
    batches, index = build(steps)
    totals = index.totals
    assert totals.batches == len(batches)
    assert totals.size_bytes == sum(b.size for b in batches)
    assert totals.next_offset == (batches[-1].last + 1 if batches else 100)
    newest = max((b.timestamp for b in batches), default=-1)
    assert totals.max_timestamp == newest
    data = b"pad" + index.encode()
    again, end = SegmentIndex.decode(data, 3)
    assert (end, again.totals, again.encode()) == (len(data), totals, index.encode())
    for offset in range(95, totals.next_offset + 2):
        assert again.entry_before(offset) == index.entry_before(offset)


def test_every_cut_is_refused() -> None:
    data = build([(1, 90, 5, False)] * 4)[1].encode()
    for length in range(len(data)):
        with pytest.raises(DecodeError):
            SegmentIndex.decode(data[:length])


def test_columns_that_fall_are_refused() -> None:
    index = build([(1, 150, 5, False), (1, 150, 6, False)])[1]
    data = bytearray(index.encode())
    data[-48:-40], data[-40:-32] = data[-40:-32], data[-48:-40]
    with pytest.raises(DecodeError):
        SegmentIndex.decode(bytes(data))


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=200))
def test_random_bytes_decode_or_are_refused(data: bytes) -> None:
    with contextlib.suppress(DecodeError):
        SegmentIndex.decode(data)
