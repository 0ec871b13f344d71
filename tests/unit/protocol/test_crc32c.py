from hypothesis import given
from hypothesis import strategies as st

from tailrace.protocol.crc32c import crc32c


def test_the_check_value_of_castagnoli() -> None:
    assert crc32c(b"123456789") == 0xE3069283
    assert crc32c(b"") == 0


def slow_crc32c(data: bytes) -> int:
    value = 0xFFFFFFFF
    for byte in data:
        value ^= byte
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
    return value ^ 0xFFFFFFFF


@given(st.binary(max_size=100), st.integers(0, 100))
def test_equal_to_the_bitwise_one_in_parts_and_over_any_buffer(data: bytes, at: int) -> None:
    expected = slow_crc32c(data)
    assert crc32c(data) == crc32c(bytearray(data)) == crc32c(memoryview(data)) == expected
    assert crc32c(memoryview(data)[at:], crc32c(data[:at])) == expected
