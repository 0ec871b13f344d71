import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.protocol.errors import BadLength, DecodeError
from tailrace.protocol.varint import (
    read_unsigned32,
    read_varint,
    write_unsigned,
    write_varint,
)
from tests.strategies import int32s, int64s


def read_unsigned64(data: bytes) -> tuple[int, int]:
    """Read as `record_loops` does, which only compiled code could do well."""
    value = 0
    for at, byte in enumerate(data):
        value |= (byte & 0x7F) << 7 * at
        if byte < 0x80:
            return value, at + 1
    raise AssertionError("it has no end")


def read_varlong(data: bytes) -> tuple[int, int]:
    value, at = read_unsigned64(data)
    return (value >> 1) ^ -(value & 1), at


@pytest.mark.parametrize(
    ("value", "encoded"),
    [(0, "00"), (-1, "01"), (1, "02"), (63, "7e"), (-64, "7f"), (64, "8001"), (-65, "8101"),
     ((1 << 31) - 1, "feffffff0f"), (-(1 << 31), "ffffffff0f")],
)  # fmt: skip
def test_kafkas_varints_from_its_own_test(value: int, encoded: str) -> None:
    assert write_varint(value).hex() == encoded
    assert read_varint(bytes.fromhex(encoded)) == (value, len(encoded) // 2)
    assert read_varlong(bytes.fromhex(encoded)) == (value, len(encoded) // 2)


@given(int32s, st.binary(max_size=3), st.binary(max_size=3))
def test_varint_comes_back_from_anywhere(value: int, before: bytes, after: bytes) -> None:
    packed = write_varint(value)
    buf = before + packed + after
    assert read_varint(buf, len(before)) == (value, len(before) + len(packed))
    assert read_varint(memoryview(buf), len(before)) == (value, len(before) + len(packed))


@given(int64s)
def test_varlong_comes_back(value: int) -> None:
    packed = write_varint(value)
    assert read_varlong(packed) == (value, len(packed))


@given(st.integers(0, (1 << 64) - 1))
def test_unsigned_comes_back(value: int) -> None:
    packed = write_unsigned(value)
    assert read_unsigned64(packed) == (value, len(packed))
    if value < 1 << 32:
        assert read_unsigned32(packed) == (value, len(packed))
    else:
        with pytest.raises(BadLength):
            read_unsigned32(packed)


@pytest.mark.parametrize("bits", range(7, 64, 7))
@pytest.mark.parametrize("beside", [-1, 0, 1])
def test_a_number_is_a_byte_longer_from_each_seventh_bit_on(bits: int, beside: int) -> None:
    value = (1 << bits) + beside
    packed = write_unsigned(value)
    assert len(packed) == bits // 7 + (beside >= 0)
    assert read_unsigned64(packed) == (value, len(packed))
    assert read_varlong(write_varint(value >> 1))[0] == value >> 1


@pytest.mark.parametrize("endless", [b"\xff" * 200, b"\x80" * 200, b"\xff" * 4 + b"\x10"])
def test_a_number_too_long_for_its_type_is_refused(endless: bytes) -> None:
    with pytest.raises(BadLength):
        read_varint(endless)


@given(st.binary(max_size=12))
def test_random_bytes_give_a_number_or_a_decode_error(data: bytes) -> None:
    for read in (read_varint, read_unsigned32):
        try:
            _, at = read(data)
        except DecodeError:
            continue
        assert 0 < at <= len(data)
