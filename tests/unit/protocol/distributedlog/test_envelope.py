import re
import tracemalloc
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.protocol.distributedlog.envelope import (
    JOINED_BELOW_BYTES,
    EnvelopeCodec,
    compress_envelope,
    join_small,
    pack_bare,
    pack_envelope,
    pack_user_records,
    unpack_envelope,
)
from tailrace.protocol.distributedlog.lz4_block import UNPACKED_BYTES_MAX, pack_lz4, unpack_lz4
from tailrace.protocol.distributedlog.record import (
    HEADER_SIZE,
    POSITION_MAX,
    LogRecord,
    record_parts,
)
from tailrace.protocol.distributedlog.record_set import expand, pack_record_set, record_set
from tailrace.protocol.errors import BadLength, BadValue, DecodeError
from tests.golden import Vector, vectors
from tests.strategies import hostile, log_record_lists, naturals, small_bytes

ENTRIES = [
    vector
    for vector in vectors("dl.txt")
    if vector.section[:2] in ("A2", "B1", "B2", "B3", "B4")
    or vector.title.startswith("the record's entry")
]
HELLO = LogRecord(7, b"hello", 0, 1)
small_values = st.lists(small_bytes, min_size=1, max_size=4)


def is_bare(vector: Vector) -> bool:
    return "not enveloped" in vector.title or vector.section.startswith("B4")


@pytest.mark.parametrize(
    "vector", ENTRIES, ids=lambda vector: f"{vector.section[:2]} {vector.title[:40]}"
)
def test_javas_entries_decode_and_come_back(vector: Vector) -> None:
    enveloped = not is_bare(vector)
    slots = unpack_envelope(vector.data, enveloped)
    records = [record for _, record in slots]
    if not enveloped:
        assert b"".join(pack_bare(records)) == vector.data
    elif vector.data[4] == EnvelopeCodec.NONE:
        assert b"".join(pack_envelope(records)) == vector.data
    else:  # LZ4 may choose other bytes for the same records
        again = b"".join(pack_envelope(records, EnvelopeCodec.LZ4))
        assert unpack_envelope(again) == slots
        assert again[:9] == vector.data[:9]


B_ENTRIES = [vector for vector in ENTRIES if vector.section[0] == "B"]


@pytest.mark.parametrize(
    "vector", B_ENTRIES, ids=lambda vector: f"{vector.section[:2]} {vector.title}"
)
def test_the_records_of_javas_ledgers_are_what_the_dump_says(vector: Vector) -> None:
    found = unpack_envelope(vector.data, not is_bare(vector))
    for (slot, record), note in zip(found, vector.notes, strict=True):
        numbers = [int(n) for n in re.findall(r"(?:slot|flags|position|txid) (\d+)", note)]
        assert [slot, record.flags, record.position, record.txid] == numbers
        payload = bytes(record.payload)
        assert repr(payload)[1:] in note or f"payload {len(payload)} bytes" in note


def test_there_were_entries_of_every_kind() -> None:
    assert len(ENTRIES) == 30
    assert len(B_ENTRIES) == 21


def test_slots_count_records_and_what_record_sets_hold() -> None:
    records = [HELLO, record_set(9, [b"a", b"bb"], 2), LogRecord(10, b"x", 0, 4)]
    slots = unpack_envelope(b"".join(pack_envelope(records)))
    assert [slot for slot, _ in slots] == [0, 1, 3]


def test_payloads_are_the_parts_that_were_given() -> None:
    payload = memoryview(b"batch")
    parts = [b"pa", bytearray(b"rts")]
    assert pack_envelope([LogRecord(1, payload, 0, 1)])[2] is payload
    packed, _ = pack_user_records([record_parts(1, [payload], 5), record_parts(2, parts, 5)], 40)
    assert packed[2] is payload
    assert packed[4] is parts[0]
    assert packed[5] is parts[1]


@given(log_record_lists, st.integers(0, POSITION_MAX - 1000))
def test_user_records_are_numbered_and_packed_as_an_envelope_of_them_is(
    records: list[LogRecord], before: int
) -> None:
    numbered = [each._replace(flags=0, position=before + n + 1) for n, each in enumerate(records)]
    waiting = [record_parts(each.txid, [each.payload], len(each.payload)) for each in records]
    packed, position = pack_user_records(waiting, before)
    assert b"".join(packed) == b"".join(pack_envelope(numbered))
    assert position == before + len(records)


@given(st.lists(small_values, min_size=1, max_size=5), st.integers(0, 1000), st.booleans())
def test_a_record_set_takes_a_position_for_each_of_its_values(
    values_of_each: list[list[bytes]], before: int, compressed: bool
) -> None:
    waiting = []
    for txid, values in enumerate(values_of_each):
        payload = pack_record_set(values) if len(values) > 1 else values[0]
        count = len(values) if len(values) > 1 else 0
        waiting.append(record_parts(txid, [payload], len(payload), count))
    packed, position = pack_user_records(waiting, before)
    data = b"".join(compress_envelope(packed) if compressed else packed)
    found = [inner for each in unpack_envelope(data) for inner in expand(*each)]
    wanted = [(txid, value) for txid, values in enumerate(values_of_each) for value in values]
    assert [(r.txid, bytes(r.payload)) for _, r in found] == wanted
    assert [slot for slot, _ in found] == list(range(len(wanted)))
    assert [r.position for _, r in found] == [before + n + 1 for n in range(len(wanted))]
    assert position == before + len(wanted)


def test_lz4_is_used_where_it_makes_an_entry_shorter() -> None:
    for payload, is_shorter in ((b"a" * 10_000, True), (Random(1).randbytes(10_000), False)):
        plain, _ = pack_user_records([record_parts(1, [payload], len(payload))], 0)
        stored = compress_envelope(plain)
        assert (sum(map(len, stored)) < sum(map(len, plain))) is is_shorter
        assert (stored is plain) is not is_shorter
        ((_, record),) = unpack_envelope(b"".join(stored))
        assert record.payload == payload


def test_user_records_beyond_what_java_could_number_are_our_bug() -> None:
    with pytest.raises(AssertionError):
        pack_user_records([record_parts(1, [b"x"], 1)], POSITION_MAX)


def test_unpacked_payloads_are_views() -> None:
    data = bytearray(b"".join(pack_envelope([HELLO])))
    ((_, record),) = unpack_envelope(data)
    data[-5:] = b"HELLO"
    assert record.payload == b"HELLO"


@given(log_record_lists, st.sampled_from(list(EnvelopeCodec)))
def test_comes_back(records: list[LogRecord], codec: EnvelopeCodec) -> None:
    data = b"".join(pack_envelope(records, codec))
    assert unpack_envelope(data) == list(enumerate(records))
    assert unpack_envelope(b"".join(pack_bare(records)), enveloped=False) == list(
        enumerate(records)
    )


@given(log_record_lists, st.sampled_from(list(EnvelopeCodec)))
@settings(max_examples=30)
def test_every_cut_is_refused(records: list[LogRecord], codec: EnvelopeCodec) -> None:
    data = b"".join(pack_envelope(records, codec))
    for length in range(len(data)):
        with pytest.raises(DecodeError):
            unpack_envelope(data[:length])


@settings(max_examples=300)
@given(
    hostile(
        st.builds(
            lambda records, codec: b"".join(pack_envelope(records, codec)),
            log_record_lists
            | st.builds(lambda t, v: [record_set(t, v, 1)], naturals, st.lists(small_bytes)),
            st.sampled_from(list(EnvelopeCodec)),
        )
    ),
    st.booleans(),
)
def test_hostile_entries_give_records_or_a_decode_error(data: bytes, enveloped: bool) -> None:
    try:
        slots = unpack_envelope(data, enveloped)
    except DecodeError:
        return
    assert all(slot >= 0 for slot, _ in slots)


@pytest.mark.parametrize(
    ("at", "value", "error"),
    [
        (0, 2, BadValue),  # version
        (4, 2, BadValue),  # codec
        (4, 3, BadValue),
        (8, 24, BadLength),  # plain and stored length differ
        (12, 24, BadLength),  # stored length and what is there differ
        (5, 0x80, BadLength),  # negative
    ],
)
def test_an_envelope_that_lies(at: int, value: int, error: type[DecodeError]) -> None:
    data = bytearray(b"".join(pack_envelope([HELLO])))
    data[at] = value
    with pytest.raises(error):
        unpack_envelope(data)


def test_an_lz4_envelope_that_claims_gigabytes_is_refused() -> None:
    data = bytearray(b"".join(pack_envelope([HELLO], EnvelopeCodec.LZ4)))
    data[5:9] = b"\x7f\xff\xff\xff"
    with pytest.raises(BadLength):
        unpack_envelope(data)
    data[5:9] = b"\x00\x00\x01\x00"
    with pytest.raises(DecodeError):
        unpack_envelope(data)


def test_no_room_is_taken_for_what_a_block_cannot_hold() -> None:
    """Not a byte more than its own bytes can stand for; what they can is taken."""
    highest = pack_lz4(bytes(1 << 20))
    assert len(unpack_lz4(highest, 1 << 20)) == 1 << 20
    block = pack_lz4(b"hello" * 5)
    tracemalloc.start()
    with pytest.raises(BadLength):
        unpack_lz4(block, UNPACKED_BYTES_MAX)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1 << 20


@given(st.lists(st.integers(0, 4 * JOINED_BELOW_BYTES), min_size=1, max_size=5))
def test_small_parts_are_joined_and_large_ones_stay_as_they_are(sizes: list[int]) -> None:
    payloads = [bytes([number]) * size for number, size in enumerate(sizes)]
    waiting = [record_parts(1, [payload], len(payload)) for payload in payloads]
    size = sum(HEADER_SIZE + len(payload) for payload in payloads)
    parts, _ = pack_user_records(waiting, 0)
    joined = join_small(parts, size)
    assert b"".join(joined) == b"".join(parts)
    if size < JOINED_BELOW_BYTES * len(parts):
        assert len(joined) == 1
    else:
        assert joined is parts  # the payloads themselves, uncopied
