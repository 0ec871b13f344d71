import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.broker.replicated.partitioning import java_string_hash, partition_for

# Printed by Java 17 with kafka-clients 4.3.1: s.hashCode(), Utils.abs(s.hashCode()) % 50
VECTORS = [
    ("", 0, 0),
    ("a", 97, 47),
    ("ab", 3105, 5),
    ("hello", 99162322, 22),
    ("my-group", -1906497762, 12),  # the lower 31 bits would say 36
    ("polygenelubricants", -2147483648, 0),
    ("gruppe-ä", 673522898, 48),
    ("😀", 1772899, 49),
    ("console-consumer-12345", 158455506, 6),
]


@pytest.mark.parametrize(("group", "hash_code", "partition"), VECTORS)
def test_groups_live_where_kafka_puts_them(group: str, hash_code: int, partition: int) -> None:
    assert java_string_hash(group) == hash_code
    assert partition_for(group, 50) == partition


@given(st.text(max_size=50))
def test_hash_is_the_polynomial_over_utf16(text: str) -> None:
    units = memoryview(text.encode("utf-16-le", "surrogatepass")).cast("H")
    value = sum(unit * 31 ** (len(units) - 1 - at) for at, unit in enumerate(units)) % 2**32
    assert java_string_hash(text) == (value - 2**32 if value >= 2**31 else value)
