"""Primitive encodings: known bytes both ways, and every bound."""

import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.protocol.errors import (
    BadLength,
    BadValue,
    BufferUnderflow,
    DecodeError,
    ProtocolError,
    UnexpectedNull,
)
from tailrace.protocol.kafka import primitives as p

CLASSIC = (False, False)
CLASSIC_NULLABLE = (False, True)
COMPACT = (True, False)
COMPACT_NULLABLE = (True, True)

BOTH_WAYS = [
    (p.INT8, CLASSIC, -2, "fe"),
    (p.INT16, CLASSIC, -2, "fffe"),
    (p.INT32, COMPACT, 258, "00000102"),
    (p.INT64, CLASSIC, -1, "ffffffffffffffff"),
    (p.BOOL, CLASSIC, True, "01"),
    (p.BOOL, CLASSIC, False, "00"),
    (p.UUID, COMPACT, bytes(range(16)), bytes(range(16)).hex()),
    (p.STRING, CLASSIC, "ab", "00026162"),
    (p.STRING, CLASSIC, "", "0000"),
    (p.STRING, CLASSIC_NULLABLE, None, "ffff"),
    (p.STRING, COMPACT, "ab", "036162"),
    (p.STRING, COMPACT_NULLABLE, None, "00"),
    (p.STRING, COMPACT, "é" * 64, "8101" + "c3a9" * 64),
    (p.BYTES, CLASSIC, b"ab", "000000026162"),
    (p.BYTES, CLASSIC_NULLABLE, None, "ffffffff"),
    (p.BYTES, COMPACT, b"", "01"),
    (p.RECORDS, CLASSIC, b"ab", "000000026162"),
    (p.RECORDS, COMPACT_NULLABLE, None, "00"),
]

REFUSED = [
    (p.STRING, CLASSIC, "ffff", UnexpectedNull),
    (p.STRING, COMPACT, "00", UnexpectedNull),
    (p.STRING, CLASSIC_NULLABLE, "fffe", BadLength),
    (p.STRING, CLASSIC, "0003ab", BufferUnderflow),
    (p.STRING, CLASSIC, "0002c328", BadValue),
    (p.STRING, COMPACT, "818002" + "61" * 32768, BadLength),
    (p.BYTES, CLASSIC, "fffffffe", BadLength),
    (p.BYTES, CLASSIC, "7fffffff00", BufferUnderflow),
    (p.BYTES, COMPACT, "ffffffff0f00", BufferUnderflow),
    (p.BYTES, COMPACT, "ffffffff1f00", BadLength),
    (p.BYTES, COMPACT, "808080808000", BadLength),
    (p.BYTES, COMPACT, "8080", BufferUnderflow),
    (p.RECORDS, CLASSIC, "7fffffff00", BufferUnderflow),
    (p.UUID, CLASSIC, "00" * 15, BufferUnderflow),
    (p.BOOL, CLASSIC, "", BufferUnderflow),
]


def parse(codec: Any, data: bytes) -> Any:
    return codec._parse(p.Source(data), None, "field")


def build(codec: Any, value: Any) -> list[Any]:
    sink = p.Sink()
    codec._build(value, sink, None, "field")
    return sink.finish()


@pytest.mark.parametrize(("kind", "shape", "value", "encoded"), BOTH_WAYS)
def test_known_bytes_both_ways(
    kind: p.Kind, shape: tuple[bool, bool], value: Any, encoded: str
) -> None:
    codec = kind.shape(*shape)
    assert parse(codec, bytes.fromhex(encoded)) == value
    assert b"".join(build(codec, value)).hex() == encoded


@pytest.mark.parametrize(("kind", "shape", "encoded", "error"), REFUSED)
def test_refused(
    kind: p.Kind, shape: tuple[bool, bool], encoded: str, error: type[ProtocolError]
) -> None:
    with pytest.raises(error):
        parse(kind.shape(*shape), bytes.fromhex(encoded))


@pytest.mark.parametrize("kind", [p.STRING, p.BYTES, p.RECORDS])
@pytest.mark.parametrize("shape", [CLASSIC, COMPACT])
def test_null_is_not_written_where_there_is_none(kind: p.Kind, shape: tuple[bool, bool]) -> None:
    with pytest.raises(ValueError, match="null"):
        build(kind.shape(*shape), None)


def test_long_strings_and_wrong_uuids_are_not_written() -> None:
    with pytest.raises(ValueError, match="32768"):
        build(p.STRING.shape(*COMPACT), "x" * 32768)
    with pytest.raises(ValueError, match="uuid"):
        build(p.UUID.shape(*COMPACT), b"short")


@pytest.mark.parametrize("true", [b"\1", b"\2", b"\xff"])
def test_every_byte_but_zero_is_true(true: bytes) -> None:
    assert parse(p.BOOL.shape(*CLASSIC), true) is True


@given(st.integers(0, 0xFFFF_FFFF))
def test_uvarint_both_ways(value: int) -> None:
    assert p.read_uvarint(p.Source(p.pack_uvarint(value))) == value


@pytest.mark.parametrize("value", [-1, 1 << 32])
def test_uvarint_out_of_range_is_not_written(value: int) -> None:
    with pytest.raises(ValueError, match="32 bit"):
        p.pack_uvarint(value)


def test_records_are_neither_copied_in_nor_joined_out() -> None:
    codec = p.RECORDS.shape(*COMPACT)
    data = b"\x06hello, and more"
    read = parse(codec, data)
    assert read.obj is data
    first, second = bytearray(b"one"), memoryview(b"two")
    parts = build(codec, [first, b"", second])
    assert parts[1] is first
    assert parts[2] is second
    assert b"".join(parts) == b"\x07onetwo"


@pytest.mark.parametrize("length", [p.INT32_LENGTH, p.COMPACT_LENGTH])
def test_a_count_is_bounded_before_anything_is_made_of_it(length: p.Length) -> None:
    codec = p.Sized(length, p.array_body(p.INT8.shape(*CLASSIC)), nullable=False)
    data = length.pack(2**31 - 2) + bytes(1000)
    tracemalloc.start()
    with pytest.raises(BadLength):
        parse(codec, data)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 20_000


def test_elements_are_bounded_per_message() -> None:
    codec = p.Sized(p.INT32_LENGTH, p.array_body(p.INT8.shape(*CLASSIC)), nullable=False)
    source = p.Source(p.INT32_LENGTH.pack(3) + bytes(3))
    source.elements_left = 2
    with pytest.raises(BadLength, match="elements"):
        codec._parse(source, None, "")


def test_arrays_are_tuples_and_may_be_null() -> None:
    codec = p.Sized(p.COMPACT_LENGTH, p.array_body(p.INT16.shape(*COMPACT)), nullable=True)
    assert parse(codec, bytes.fromhex("0300010002")) == (1, 2)
    assert parse(codec, b"\0") is None
    assert parse(codec, b"\1") == ()
    assert b"".join(build(codec, [1, 2])).hex() == "0300010002"


def test_a_window_must_be_used_up() -> None:
    source = p.Source(b"abcd")
    with source.window(2):
        assert bytes(source.take(2)) == b"ab"
    assert source.end == 4
    with pytest.raises(BadLength), source.window(2):
        source.take(1)
    with pytest.raises(BufferUnderflow), p.Source(b"abcd").window(5):
        pass


KINDS = [p.STRING, p.BYTES, p.RECORDS, p.UUID, p.BOOL]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
@pytest.mark.parametrize("shape", [CLASSIC, CLASSIC_NULLABLE, COMPACT, COMPACT_NULLABLE])
@given(data=st.binary(max_size=40))
def test_random_bytes_give_a_value_or_a_decode_error(
    kind: p.Kind, shape: tuple[bool, bool], data: bytes
) -> None:
    try:
        parse(kind.shape(*shape), data)
    except DecodeError:
        return
