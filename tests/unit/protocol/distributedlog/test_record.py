import pytest
from hypothesis import given

from tailrace.protocol.distributedlog.envelope import pack_bare
from tailrace.protocol.distributedlog.record import (
    POSITION_MAX,
    LogRecord,
    control_record,
    end_of_stream_record,
    pack_metadata,
    read_records,
)
from tailrace.protocol.errors import BadLength, DecodeError
from tests.strategies import hostile, log_records


def bare(record: LogRecord) -> bytes:
    return b"".join(pack_bare([record]))


@pytest.mark.parametrize(
    ("record", "packed"),
    [
        (LogRecord(7, b"hello", 0, 1), "0000000000010000 0000000000000007 00000005 68656c6c6f"),
        (control_record(7, 1), "0000000000010001 0000000000000007 00000007 636f6e74726f6c"),
        (end_of_stream_record(1), "0000000000010002 7fffffffffffffff 0000000b"
                                  "656e644f6653747265616d"),
    ],
)  # fmt: skip
def test_records_of_the_reference(record: LogRecord, packed: str) -> None:
    data = bytes.fromhex(packed.replace(" ", ""))
    assert bare(record) == data
    assert read_records(data) == [record]
    assert record.size_bytes == len(data)


def test_what_a_record_is() -> None:
    assert control_record(1, 0).is_control
    assert end_of_stream_record(1).is_end_of_stream
    assert not end_of_stream_record(1).is_control
    assert LogRecord(1, b"", 4).is_record_set


@given(log_records)
def test_comes_back_whole_and_not_cut(record: LogRecord) -> None:
    data = bare(record)
    assert read_records(data) == [record]
    for length in range(1, len(data)):
        with pytest.raises(DecodeError):
            read_records(data[:length])


def test_unused_high_bits_of_the_metadata_are_ignored() -> None:
    data = b"\xff\xff" + bare(LogRecord(7, b"x", 1, 5))[2:]
    assert read_records(data) == [LogRecord(7, b"x", 1, 5)]


def test_a_position_that_java_could_not_hold_is_our_bug() -> None:
    assert pack_metadata(0, POSITION_MAX) == POSITION_MAX << 16
    with pytest.raises(AssertionError):
        pack_metadata(0, POSITION_MAX + 1)


def test_a_negative_length_is_refused() -> None:
    data = bytearray(bare(LogRecord(7, b"hello")))
    data[16:20] = b"\xff\xff\xff\xff"
    with pytest.raises(BadLength):
        read_records(data)


@given(hostile(log_records.map(bare)))
def test_hostile_bytes_give_a_record_or_a_decode_error(data: bytes) -> None:
    try:
        records = read_records(data)
    except DecodeError:
        return
    assert sum(record.size_bytes for record in records) == len(data)
