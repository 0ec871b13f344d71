import struct
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.protocol.compression import compress
from tailrace.protocol.errors import (
    BadLength,
    BadValue,
    BufferUnderflow,
    DecodeError,
    UnexpectedNull,
)
from tailrace.protocol.records.batch import HEADER_SIZE, read_header, stamp_crc, verify_crc
from tailrace.protocol.records.record import (
    Record,
    build_batch,
    iter_records,
    key_value_records,
    payload_of,
)
from tailrace.protocol.records.times import newest_from
from tests.strategies import codecs, hostile, record_batches, record_lists

PLAIN = Record(0, 1, key=b"k", value=b"v", headers=(("h", b"1"), ("", None)))


@given(record_lists(gaps=True), codecs, st.integers(0, 1 << 50))
def test_records_come_back(records: list[Record], codec: int, base_offset: int) -> None:
    records = [record._replace(offset=record.offset + base_offset) for record in records]
    batch = build_batch(records, codec, base_offset=base_offset)
    verify_crc(batch)
    assert list(iter_records(batch)) == records
    assert list(iter_records(memoryview(bytes(batch)))) == records
    header = read_header(batch)
    assert header.last_offset == records[-1].offset
    assert header.max_timestamp == max(record.timestamp for record in records)


def test_pairs_become_records_with_offsets_from_zero() -> None:
    records = key_value_records([(b"a", b"1"), (b"b", None)], 7)
    assert records == [Record(0, 7, key=b"a", value=b"1"), Record(1, 7, key=b"b")]


@pytest.mark.parametrize("offsets", [(0, 0), (1, 0), (-1,), (1 << 31,)])
def test_offsets_that_do_not_rise_are_our_bug(offsets: tuple[int, ...]) -> None:
    with pytest.raises(AssertionError):
        build_batch([Record(offset) for offset in offsets])
    with pytest.raises(AssertionError):
        build_batch([])


@settings(max_examples=500)
@given(hostile(record_batches()))
def test_hostile_batches_give_records_or_a_decode_error(data: bytes) -> None:
    reads: list[Any] = [
        lambda: list(iter_records(data)),
        lambda: newest_from(*payload_of(data), 0),
    ]
    for read in reads:
        try:
            read()
        except DecodeError:
            continue


def refilled(payload: bytes, count: int = 1, codec: int = 0) -> bytearray:
    """Return a batch with a right header and CRC around any payload."""
    batch = build_batch([PLAIN])
    packed = payload if codec == 0 else compress(codec, payload)
    batch[HEADER_SIZE:] = packed
    struct.pack_into(">i", batch, 8, len(batch) - 12)
    struct.pack_into(">h", batch, 21, codec)
    struct.pack_into(">i", batch, 57, count)
    stamp_crc(batch)
    return batch


WHOLE = bytes(build_batch([PLAIN])[HEADER_SIZE:])


def test_the_helper_itself() -> None:
    assert list(iter_records(refilled(WHOLE))) == [PLAIN]
    assert list(iter_records(refilled(WHOLE, codec=4))) == [PLAIN]


@pytest.mark.parametrize("length", range(len(WHOLE)))
def test_every_cut_of_the_records_is_refused(length: int) -> None:
    with pytest.raises(DecodeError):
        list(iter_records(refilled(WHOLE[:length])))


@pytest.mark.parametrize(
    ("payload", "count", "error"),
    [
        (WHOLE, 2, BufferUnderflow),  # the second record is not there
        (WHOLE + WHOLE, 1, BadLength),  # one too many
        (WHOLE, -1, BadLength),
        (WHOLE, (1 << 31) - 1, BadLength),
        (bytes.fromhex("0c000000010100"), 1, None),  # null key, null value
        (bytes.fromhex("0a0000000101"), 1, BadLength),  # shorter than any record
        (bytes.fromhex("ff000000010100"), 1, DecodeError),  # negative length
        (bytes.fromhex("0c000000030100"), 1, None),  # key length -2 is null, as in Kafka
        (bytes.fromhex("0c000080808001" "01"), 1, DecodeError),  # numbers that run over its end
        (bytes.fromhex("0c000000080100"), 1, DecodeError),  # key longer than the record
        (bytes.fromhex("0c000000010300"), 1, None),  # so is value length -2
        (bytes.fromhex("0c000000010800"), 1, BadLength),  # value longer than the record
        (bytes.fromhex("0c000000010101"), 1, BadLength),  # header count -1
        (bytes.fromhex("0c00000001017e"), 1, BadLength),  # 63 headers in no byte
        (bytes.fromhex("10000000010102" "0101"), 1, UnexpectedNull),  # header without a key
        (bytes.fromhex("12000000010102" "02ff01"), 1, BadValue),  # header key not UTF-8
        (bytes.fromhex("0e00000001010000"), 1, BadLength),  # a byte too many in the record
    ],
)  # fmt: skip
def test_records_that_lie(payload: bytes, count: int, error: type[DecodeError] | None) -> None:
    batch = refilled(payload, count)
    if error is None:
        assert list(iter_records(batch)) == [Record(0, 1)]
        return
    with pytest.raises(error):
        list(iter_records(batch))


def test_a_batch_that_ends_early_is_refused() -> None:
    batch = build_batch([PLAIN])
    for length in range(len(batch)):
        with pytest.raises(BufferUnderflow):
            list(iter_records(batch[:length]))


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
def test_a_bomb_is_refused(codec: int) -> None:
    batch = build_batch([Record(0, 1, value=bytes(1 << 20))], codec)
    assert len(batch) < 100_000
    with pytest.raises(BadLength):
        list(iter_records(batch, max_bytes=1 << 19))


def test_a_codec_that_kafka_does_not_have() -> None:
    batch = refilled(WHOLE)
    batch[22] = 6
    with pytest.raises(BadValue):
        list(iter_records(batch))
