"""Records in bulk against the record reader, and bytes that lie."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.compaction.cleaner.block import Block
from tailrace.compaction.cleaner.columns import Columns, read_columns
from tailrace.compaction.cleaner.errors import CorruptBatch
from tailrace.compaction.cleaner.headers import read_headers
from tailrace.core.runtime.child_process import Joined
from tailrace.protocol.compression import Codec
from tailrace.protocol.ids import Buffer
from tailrace.protocol.records.batch import HEADER_SIZE, LOG_APPEND_TIME, stamp_crc
from tailrace.protocol.records.record import Record, build_batch, iter_records
from tests import malformed

FIELD = st.none() | st.binary(max_size=200)
RECORDS = st.lists(
    st.tuples(
        st.integers(1, 100_000),  # distance to the offset before
        st.integers(-(2**40), 2**40),
        FIELD,
        FIELD,
        st.lists(st.tuples(st.text(max_size=3), FIELD), max_size=2),
    ),
    min_size=1,
    max_size=8,
)
BATCH = st.tuples(RECORDS, st.sampled_from(list(Codec)), st.sampled_from([0, LOG_APPEND_TIME]))


def build(
    block: list[tuple[list[tuple[int, int, bytes, bytes, list[object]]], Codec, int]],
) -> list[bytes]:
    batches = []
    base = 5
    for rows, codec, attributes in block:
        offset = base - 1
        records = []
        for distance, timestamp, key, value, headers in rows:
            offset += distance
            records.append(Record(offset, timestamp, key=key, value=value, headers=tuple(headers)))
        batches.append(bytes(build_batch(records, codec, base, attributes=attributes)))
        base = offset + 1
    return batches


def columns_of(batches: Sequence[Buffer]) -> Columns:
    """Read them where they lie in a larger buffer, as the cleaner's process has them."""
    room = memoryview(b"".join([*batches, bytes([0xFF])]))[:-1]
    block = Block.of(Joined(room, [len(batch) for batch in batches]))
    assert block.data is room
    return read_columns(block, read_headers(block))


@given(st.lists(BATCH, max_size=4))
def test_columns_say_what_the_record_reader_says(block: list) -> None:  # type: ignore[type-arg]
    batches = build(block)
    columns = columns_of(batches)
    expected = [(at, record) for at, batch in enumerate(batches) for record in iter_records(batch)]
    data = columns.data
    for index, (at, record) in enumerate(expected):
        size = int(columns.key_size[index])
        key = None if size < 0 else data[columns.key_at[index] :][:size]
        assert (key, bool(columns.has_value[index])) == (record.key, record.value is not None)
        assert (columns.offset[index], columns.timestamp[index]) == (
            record.offset,
            record.timestamp,
        )
        assert columns.batch[index] == at
    assert len(columns.at) == len(expected) == columns.first[-1]


@pytest.mark.parametrize("size", [0, 50, 51, 52, 60, 8000, 8170, 20_000])
@pytest.mark.parametrize("others", [(0, 0, 0), (0, 1, -1), (-1, 1, 0), (0, -1, 1)])
def test_records_of_one_length_and_of_three_that_only_add_up(
    size: int, others: tuple[int, ...]
) -> None:
    sizes = [size + 4 * (5 + more) for more in others]
    records = [Record(at, 9, key=b"k", value=bytes([at]) * each) for at, each in enumerate(sizes)]
    batch = build_batch(records)
    columns = columns_of([batch])
    assert [
        columns.data[end - each - 1 : end - 1] for end, each in zip(columns.end, sizes, strict=True)
    ] == [record.value for record in records]
    assert columns.at.tolist() == [HEADER_SIZE, *columns.end.tolist()[:-1]]


def test_a_value_that_looks_like_the_next_records_length_is_none() -> None:
    """Three records that add up, of lengths with one low byte; where the third would begin if all
    were of one length, the second's value has that byte."""
    low = build_batch([Record(0, 9, key=b"k", value=bytes(500))])[HEADER_SIZE]
    records = [
        Record(at, 9, key=b"k", value=bytes([low]) * size)
        for at, size in enumerate((500, 564, 436))
    ]
    batch = build_batch(records)
    columns = columns_of([batch])
    assert [columns.data[at] for at in columns.at.tolist()] == [low] * 3
    assert columns.at.tolist() == [HEADER_SIZE, *columns.end.tolist()[:-1]]
    assert columns.offset.tolist() == [0, 1, 2]


@given(st.lists(BATCH, min_size=1, max_size=3), st.data())
def test_bytes_that_lie_are_told_or_read(block: list, data: st.DataObject) -> None:  # type: ignore[type-arg]
    batches = [bytearray(batch) for batch in build(block)]
    broken = data.draw(st.sampled_from(batches))
    for _ in range(data.draw(st.integers(1, 3))):
        broken[data.draw(st.integers(HEADER_SIZE, len(broken) - 1))] = data.draw(
            st.integers(0, 255)
        )
    stamp_crc(broken)
    columns, blamed = None, broken
    try:
        columns = columns_of(batches)
    except CorruptBatch as error:
        blamed = batches[error.index]
    assert blamed is broken
    if columns is not None:
        assert (columns.key_at + columns.key_size < columns.end).all()
        assert (columns.end <= len(columns.data)).all()


def test_an_empty_block_has_no_records() -> None:
    assert len(columns_of([]).at) == 0


def test_a_batch_of_more_records_than_one_step_reads() -> None:
    count = 120_000
    records = [Record(at, at, key=b"%d" % at, value=b"v") for at in range(count)]
    before, behind = build_batch(records[:3]), build_batch(records[:2], base_offset=0)
    columns = columns_of([before, build_batch(records, Codec.ZSTD), behind])
    assert np.diff(columns.first).tolist() == [3, count, 2]
    middle = slice(3, 3 + count)
    assert columns.offset[middle].tolist() == list(range(count))
    assert columns.timestamp[middle].tolist() == list(range(count))


@pytest.mark.parametrize("deltas", [(0, 0), (5, 9), (0, 7), (1, 0), (-1, 1)])
def test_offsets_that_do_not_rise_in_their_batch_are_its_places(deltas: tuple[int, int]) -> None:
    """Brokers take them of a producer; one such batch must not end the cleaning of its log."""
    bad = malformed.sealed(b"".join(malformed.record(delta) for delta in deltas), 2)
    bad[:8] = (5).to_bytes(8, "big")
    good = build_batch([Record(7, 9, key=b"k"), Record(9, 9, key=b"k")], base_offset=7)
    assert columns_of([bad, good]).offset.tolist() == [5, 6, 7, 9]


def test_a_batch_of_more_records_than_offsets_is_corrupt() -> None:
    bad = malformed.sealed(malformed.record(0) * 3, 3)
    bad[23:27] = (1).to_bytes(4, "big")
    stamp_crc(bad)
    with pytest.raises(CorruptBatch, match="more records than offsets"):
        columns_of([bad])


def test_a_key_of_length_minus_2_is_null() -> None:
    """Kafka takes it from a producer, and reads it so."""
    batch = malformed.sealed(malformed.record(key=b"", key_length=-2), 1)
    assert (columns_of([batch]).key_size < 0).all()


@pytest.mark.parametrize("size", [1 << 40, (1 << 62) - 1])
def test_a_key_of_absurd_length_is_refused(size: int) -> None:
    """Numbers of ten bytes would wrap a sum of 64 bits."""
    zigzag = ((size << 1) ^ (size >> 63)) & (1 << 64) - 1
    number = bytearray()
    while zigzag >= 0x80:
        number.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    number.append(zigzag)
    body = b"\0\0\0" + bytes(number) + b"\1\0"
    plain = build_batch([Record(0, 5, key=b"k" * (len(body) - 6), value=None)])
    assert len(plain) == HEADER_SIZE + 1 + len(body)
    plain[HEADER_SIZE + 1 :] = body
    stamp_crc(plain)
    with pytest.raises(CorruptBatch, match="record 0: "):
        columns_of([plain])


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
@pytest.mark.parametrize("count", [-1, -(2**31), 2, 2**31 - 1])
def test_a_count_that_cannot_be_is_refused_before_anything_is_taken_by_it(
    codec: Codec, count: int
) -> None:
    good = build_batch([Record(0, 5, key=b"k", value=b"v")], codec)
    bad = bytearray(good)
    bad[57:61] = count.to_bytes(4, "big", signed=True)
    stamp_crc(bad)
    with pytest.raises(CorruptBatch, match=f"{count} records in") as raised:
        columns_of([good, bad])
    assert raised.value.index == 1


def test_bytes_behind_no_records_are_none() -> None:
    good = build_batch([Record(7, 5, key=b"k", value=b"v")], base_offset=7)
    empty = bytearray(good)
    empty[57:61] = bytes(4)
    stamp_crc(empty)
    columns = columns_of([empty, good, empty])
    assert columns.offset.tolist() == [7]
    assert columns.first.tolist() == [0, 0, 1, 1]


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (lambda good: good[: HEADER_SIZE - 1], "fewer bytes than a batch header"),
        (lambda good: good[:16] + b"\x01" + good[17:], "magic 1"),
        (lambda good: good[:-1], "76 bytes in 75"),
        (lambda good: good + b"\0", "76 bytes in 77"),
        (lambda good: good[:-1] + b"\1", "crc"),
    ],
)
def test_the_first_batch_that_is_not_whole_is_named(
    bad: Callable[[bytes], bytes], reason: str
) -> None:
    good = bytes(build_batch([Record(9, 5, key=b"key", value=b"value")], base_offset=9))
    with pytest.raises(CorruptBatch, match=reason) as raised:
        read_headers(Block.of([good, bad(good), bad(good)]))
    assert (raised.value.index, raised.value.offset) == (1, 9)


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("length", [63, 64, 8191, 8192])
def test_lengths_at_the_ends_of_what_fits_a_byte_or_two(length: int, count: int) -> None:
    value_bytes = length - (6 + (2 if length > 100 else 1))
    records = [Record(at, 9, key=b"k", value=bytes(value_bytes)) for at in range(count)]
    batch = build_batch(records)
    columns = columns_of([batch])
    assert (columns.end - columns.body_at == length).all()
    assert columns.at.tolist() == [HEADER_SIZE, *columns.end.tolist()[:-1]]
    assert columns.offset.tolist() == list(range(count))
