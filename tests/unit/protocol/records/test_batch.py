import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.protocol.compression import Codec
from tailrace.protocol.crc32c import crc32c
from tailrace.protocol.errors import BadChecksum, BadLength, BadValue, BufferUnderflow, DecodeError
from tailrace.protocol.records.batch import (
    CONTROL,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
    BatchHeader,
    TimestampType,
    compute_crc,
    is_headed,
    pack_header,
    read_header,
    split_batches,
    stamp,
    stamp_log_append_time,
    unpack_header,
    verify_crc,
    with_header,
)
from tailrace.protocol.records.record import Producer, Record, build_batch, iter_records
from tests.strategies import hostile, int32s, int64s, record_batches

# librdkafka and Java agree on these 61 + 8 bytes: one record, no key, value "x", at 1 ms.
HEADER = (
    "0000000000000000" "00000039" "ffffffff" "02" "00000000" "0000" "00000000"
    "0000000000000001" "0000000000000001" "ffffffffffffffff" "ffff" "ffffffff" "00000001"
)  # fmt: skip
RECORD = bytes.fromhex("0e00000001027800")

headers = st.builds(
    BatchHeader,
    int64s,
    st.integers(49, 1 << 20),
    int32s,
    st.just(2),
    st.integers(0, (1 << 32) - 1),
    st.integers(0, 0x7F),
    int32s,
    int64s,
    int64s,
    int64s,
    st.integers(-1, (1 << 15) - 1),
    int32s,
    int32s,
)


def two_batches() -> tuple[bytes, bytes]:
    first = build_batch([Record(0, 1000, key=b"a", value=b"1"), Record(1, 1001, value=b"2")])
    second = build_batch([Record(0, 2000, value=b"3" * 50)], codec=3)
    return bytes(first), bytes(second)


def test_the_bytes_of_the_smallest_batch() -> None:
    expected = bytearray(bytes.fromhex(HEADER) + RECORD)
    struct.pack_into(">I", expected, 17, crc32c(expected[21:]))
    assert build_batch([Record(0, 1, value=b"x")]) == expected


@given(headers, st.binary(max_size=5))
def test_headers_come_back_from_any_place(header: BatchHeader, before: bytes) -> None:
    packed = pack_header(header)
    assert len(packed) == HEADER_SIZE
    assert read_header(before + packed, len(before)) == header
    assert unpack_header(memoryview(packed)) == header


def test_what_a_header_says() -> None:
    header = read_header(
        build_batch(
            [Record(10, 5), Record(12, 9)],
            codec=3,
            base_offset=10,
            producer=Producer(7, 2, (1 << 31) - 2),
            attributes=TRANSACTIONAL,
            leader_epoch=4,
        )
    )
    assert (header.base_offset, header.last_offset, header.record_count) == (10, 12, 2)
    assert (header.base_timestamp, header.max_timestamp) == (5, 9)
    assert (header.codec, header.is_transactional, header.is_control) == (3, True, False)
    assert header.timestamp_type is TimestampType.CREATE_TIME
    assert header.partition_leader_epoch == 4
    assert header.has_producer_id
    assert header.last_sequence == 0  # 2^31-2, 2^31-1, 0
    assert BatchHeader(*[0] * 11, -1, 1).last_sequence == -1
    assert header._replace(attributes=CONTROL).is_control


def test_stamping_keeps_the_crc_and_everything_else() -> None:
    first, second = two_batches()
    both = bytearray(first + second)
    stamp(memoryview(both), 1 << 40, 77, at=len(first))
    assert both[: len(first)] == first
    header = read_header(both, len(first))
    assert (header.base_offset, header.partition_leader_epoch) == (1 << 40, 77)
    verify_crc(both, len(first))
    assert both[len(first) + 17 :] == second[17:]


def test_the_brokers_own_time_changes_three_fields() -> None:
    batch = build_batch([Record(0, 5, value=b"a"), Record(1, 9, value=b"b")])
    before = read_header(batch)
    stamp_log_append_time(batch, 1234)
    verify_crc(batch)
    after = read_header(batch)
    assert after == before._replace(
        attributes=LOG_APPEND_TIME, max_timestamp=1234, crc=compute_crc(batch)
    )
    assert [(r.timestamp, r.timestamp_type) for r in iter_records(batch)] == [(1234, 1)] * 2


def test_a_header_that_is_put_right() -> None:
    batch = memoryview(build_batch([Record(0, 1000, value=b"v" * 50)], Codec.LZ4) + b"padding")
    header = read_header(batch)
    struct.pack_into(">i", batch, 8, header.batch_length + 7)
    for wrong in (
        header,
        read_header(batch)._replace(max_timestamp=1001),
        read_header(batch)._replace(attributes=Codec.LZ4 | LOG_APPEND_TIME),
    ):
        assert not is_headed(batch, wrong)
    right = with_header(batch, header._replace(max_timestamp=1001))
    assert len(right) == len(batch) - 7
    verify_crc(right)
    assert is_headed(right, read_header(right))
    assert read_header(right) == header._replace(max_timestamp=1001, crc=read_header(right).crc)


def test_a_batch_that_was_packed_anew_keeps_its_own_header() -> None:
    records = [Record(0, 1000, value=b"v" * 50)]
    claims = read_header(build_batch(records))
    assert is_headed(build_batch(records, Codec.ZSTD), claims)


def test_every_flipped_bit_after_the_crc_is_found() -> None:
    batch = build_batch([Record(0, 1, key=b"k", value=b"v")])
    for bit in range(8 * 17, 8 * len(batch)):
        batch[bit // 8] ^= 1 << bit % 8
        with pytest.raises(BadChecksum):
            verify_crc(batch)
        batch[bit // 8] ^= 1 << bit % 8
    verify_crc(batch)


def test_a_cut_batch_has_no_crc() -> None:
    first, _ = two_batches()
    for length in range(len(first)):
        with pytest.raises(BufferUnderflow):
            compute_crc(first[:length])


def test_whole_batches_are_found_and_a_cut_one_is_left_out() -> None:
    first, second = two_batches()
    both = first + second
    places = [(0, len(first)), (len(first), len(both))]
    assert list(split_batches(both)) == places
    for length in range(len(both)):
        expected = [place for place in places if place[1] <= length]
        assert list(split_batches(memoryview(both)[:length])) == expected


@pytest.mark.parametrize(("at", "value", "error"), [(16, 1, BadValue), (16, 3, BadValue)])
def test_another_magic_is_refused(at: int, value: int, error: type[DecodeError]) -> None:
    batch = build_batch([Record(0, 1)])
    batch[at] = value
    with pytest.raises(error):
        read_header(batch)
    with pytest.raises(error):
        list(split_batches(batch))


@pytest.mark.parametrize("length", [-1, 0, 48, -(1 << 31)])
def test_a_length_below_a_header_is_refused_and_never_loops(length: int) -> None:
    batch = build_batch([Record(0, 1)])
    struct.pack_into(">i", batch, 8, length)
    with pytest.raises(BadLength):
        list(split_batches(batch))


@given(hostile(record_batches()))
def test_hostile_bytes_give_batches_or_a_decode_error(data: bytes) -> None:
    try:
        places = list(split_batches(data))
    except DecodeError:
        return
    assert all(0 <= start < end <= len(data) for start, end in places)
