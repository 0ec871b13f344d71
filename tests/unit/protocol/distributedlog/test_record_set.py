import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.protocol.distributedlog.envelope import pack_envelope, unpack_envelope
from tailrace.protocol.distributedlog.record import LogRecord
from tailrace.protocol.distributedlog.record_set import (
    count_records,
    expand,
    pack_record_set,
    record_set,
    unpack_record_set,
)
from tailrace.protocol.errors import BadLength, BadValue, DecodeError
from tests.golden import vectors
from tests.strategies import hostile, small_bytes

A3 = {vector.title: vector.data for vector in vectors("dl.txt") if vector.section.startswith("A3")}
values = st.lists(small_bytes, max_size=6)
codecs = st.sampled_from((0, 1))


def test_javas_plain_set_and_the_entry_that_carries_it() -> None:
    plain = A3["set of 'a','bb', codec none: payload only"]
    assert unpack_record_set(plain) == [b"a", b"bb"]
    assert pack_record_set([b"a", b"bb"]) == plain
    entry = A3["the record's entry: position 4, txid 9"]
    ((slot, record),) = unpack_envelope(entry)
    assert (slot, record) == (0, record_set(9, [b"a", b"bb"], 4))
    assert expand(slot, record) == [(0, LogRecord(9, b"a", 0, 4)), (1, LogRecord(9, b"bb", 0, 5))]
    assert b"".join(pack_envelope([record])) == entry


def test_javas_compressed_set() -> None:
    (data,) = [data for title, data in A3.items() if "lz4" in title]
    assert unpack_record_set(data) == [b"a" * 32] * 3
    assert unpack_record_set(pack_record_set([b"a" * 32] * 3, codec=1)) == [b"a" * 32] * 3


@given(values, codecs)
def test_comes_back_and_no_cut_does(inner: list[bytes], codec: int) -> None:
    data = pack_record_set(inner, codec)
    assert unpack_record_set(data) == inner
    assert count_records(LogRecord(1, data, 4)) == len(inner)
    for length in range(len(data)):
        with pytest.raises(DecodeError):
            unpack_record_set(data[:length])


def test_an_ordinary_record_counts_one_and_is_its_own_expansion() -> None:
    record = LogRecord(1, b"", 0, 1)
    assert count_records(record) == 1
    assert expand(5, record) == [(5, record)]


@pytest.mark.parametrize(
    ("header", "error"),
    [
        ((0x2000, 0, 0, 0), BadValue),  # version
        ((0x1002, 0, 0, 0), BadValue),  # codec
        ((0x1000, 1, 0, 0), BadLength),  # more values than bytes
        ((0x1000, -1, 0, 0), BadLength),
        ((0x1000, 0, 1, 0), BadLength),  # plain and stored length differ
        ((0x1001, 0, 1 << 30, 0), BadLength),
    ],
)
def test_a_set_that_lies(header: tuple[int, ...], error: type[DecodeError]) -> None:
    with pytest.raises(error):
        unpack_record_set(struct.pack(">iiii", *header))


def test_a_count_nobody_can_use_is_refused_where_slots_are_counted() -> None:
    with pytest.raises(BadLength):
        count_records(LogRecord(1, struct.pack(">iiii", 0x1000, -5, 0, 0), 4))
    assert count_records(LogRecord(1, struct.pack(">iiii", 0x2000, 9, 0, 0), 4)) == 1
    with pytest.raises(DecodeError):
        count_records(LogRecord(1, b"short", 4))


@given(hostile(st.builds(pack_record_set, values, codecs)))
def test_hostile_sets_give_values_or_a_decode_error(data: bytes) -> None:
    try:
        found = unpack_record_set(data)
    except DecodeError:
        return
    assert count_records(LogRecord(1, data, 4)) == len(found)
