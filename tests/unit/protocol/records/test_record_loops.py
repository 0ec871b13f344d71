"""The compiled loops do what their source does, on good bytes and bad, in one step and in many."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from librt.strings import BytesWriter

from tailrace.protocol.records import loops, record_loops
from tailrace.protocol.records.batch import HEADER_SIZE
from tailrace.protocol.records.record import Record, build_batch
from tailrace.protocol.varint import write_varint
from tests.strategies import hostile, int64s, record_lists

payloads = hostile(
    record_lists(gaps=True).map(lambda records: bytes(build_batch(records)[HEADER_SIZE:]))
)
counts = st.integers(0, 12)
FLAGS = [
    record_loops.BY_FIELDS,
    record_loops.NEEDS_KEY,
    record_loops.IN_ORDER,
    record_loops.LISTS,
    record_loops.ONE_TIME,
]
flags = st.lists(st.sampled_from(FLAGS), unique=True).map(sum)
FORMS: list[Any] = [record_loops, loops]


def test_the_two_forms_are_two() -> None:
    assert loops.check is not record_loops.check


def both(call: Callable[[Any], object]) -> object:
    plain, compiled = map(call, FORMS)
    assert plain == compiled
    return plain


@given(payloads, counts, int64s, int64s, int64s, flags)
def test_check(data: bytes, count: int, base: int, oldest: int, newest: int, how: int) -> None:
    both(lambda form: form.check(data, count, base, oldest, newest, how))


@given(payloads, counts, int64s, int64s, int64s, flags)
def test_newest_time(
    data: bytes, count: int, base: int, oldest: int, newest: int, how: int
) -> None:
    found = both(lambda form: form.newest_time(data, count, base, oldest, newest, how))
    at, index, headers_left, _, latest, fault, *_ = loops.check(
        data, count, base, oldest, newest, how
    )
    is_good = not fault and (at, index, headers_left) == (len(data), count, 0)
    assert found == (latest if is_good else record_loops.NOT_PLAIN)


@given(payloads, counts, int64s, int64s, st.integers(0, 2000))
def test_scan(data: bytes, count: int, base: int, since: int, first: int) -> None:
    both(lambda form: form.scan(data, count, base, since, first))


@given(payloads, counts, st.integers(0, 300))
def test_fill(data: bytes, count: int, end: int) -> None:
    def filled(form: Any) -> tuple[int, bytes]:
        out = BytesWriter()
        return form.fill(out, data, 0, min(end, len(data)), count), out.getvalue()

    both(filled)


@given(payloads, counts)
def test_fold(data: bytes, count: int) -> None:
    def folded(form: Any) -> tuple[object, ...]:
        changes: dict[bytes, bytes | None] = {}
        return form.fold(data, 0, count, changes), list(changes.items())

    both(folded)


@pytest.mark.parametrize("value", [0, -1, 63, 64, -65, (1 << 31) - 1, -(1 << 31)])
def test_deltas_of_every_length(value: int) -> None:
    body = b"\0" + write_varint(value << 32) + write_varint(value) + b"\x01\x01\0"
    data = write_varint(len(body)) + body
    found = both(lambda form: form.scan(data, 1, 0, -(1 << 63), value))
    assert found == (len(data), 1, max(value << 32, -1), record_loops.FOUND, value, value << 32)


@pytest.mark.parametrize(
    ("base", "delta", "time"),
    [
        ((1 << 63) - 1, 1, -(1 << 63)),
        (-(1 << 63), -1, (1 << 63) - 1),
        ((1 << 63) - 1, (1 << 63) - 1, -2),
        (-(1 << 63), -(1 << 63), 0),
        (-1, 1, 0),
        ((1 << 63) - 1, 0, (1 << 63) - 1),
        (-(1 << 63), (1 << 63) - 1, -1),
    ],
)
def test_times_go_round_as_64_bits_do(base: int, delta: int, time: int) -> None:
    body = b"\0" + write_varint(delta) + b"\0\x01\x01\0"
    data = write_varint(len(body)) + body
    found = both(lambda form: form.check(data, 1, base, 0, 0, 0))
    assert isinstance(found, tuple)
    assert found[-1] == time


def test_numbers_of_too_many_bits_or_bytes() -> None:
    def record(number: bytes) -> bytes:
        body = b"\0\0" + number + b"\x01\x01\0"
        return write_varint(len(body)) + body

    def scanned(number: bytes) -> Any:
        return both(lambda form: form.scan(record(number), 1, 0, -1, -(1 << 31)))

    assert scanned(b"\xfe\xff\xff\xff\x0f")[4] == (1 << 31) - 1
    assert scanned(b"\xfe\xff\xff\xff\x7f")[4] == (1 << 31) - 1  # bits that no int32 has go
    assert scanned(b"\xfe\xff\xff\xff\xff\x01")[3] == record_loops.CUT


# ---- in steps


def checked(form: Any, data: bytes, count: int, how: int) -> tuple[int, tuple[int, ...]]:
    """Go on until it is over; return the steps that it took, and the last answer."""
    state = form.check(data, count, 0, 0, 10, how)
    steps = 1
    while not state[5] and (state[1] < count or state[2]):
        state = form.check(data, count, 0, 0, 10, how, *state[:5])
        steps += 1
        assert steps < 1000
    return steps, state


def test_many_records_take_several_steps() -> None:
    records = [Record(at, at % 10, value=b"") for at in range(120_001)]
    data = bytes(build_batch(records)[HEADER_SIZE:])
    for form in FORMS:
        steps, state = checked(form, data, len(records), record_loops.IN_ORDER)
        assert steps == 3
        assert state == (len(data), len(records), 0, len(data), 9, 0, 0, 0, 0)


def test_a_record_of_many_headers_takes_several_steps() -> None:
    count = 1_500_000
    body = b"\0\0\0\x01\x01" + write_varint(count) + b"\0\x01" * count
    data = write_varint(len(body)) + body + b"\x0c\0\0\x02\x01\x01\0"
    for form in FORMS:
        steps, state = checked(form, data, 2, 0)
        assert steps == 3
        assert state[:3] == (len(data), 2, 0)
        cut = checked(form, data[: len(body) - 5], 1, record_loops.BY_FIELDS)
        assert cut[1][5] == record_loops.CUT


def test_bad_records_are_given_one_by_one_or_counted() -> None:
    records = [Record(at, timestamp=at % 2 * 100, value=b"v") for at in range(7)]
    data = bytes(build_batch(records)[HEADER_SIZE:])
    how = record_loops.NEEDS_KEY | record_loops.LISTS
    for form in FORMS:
        state = form.check(data, 7, 0, 0, 10, how)
        found = []
        while state[5] > 0:
            found.append((state[1], state[5]))
            state = form.check(data, 7, 0, 0, 10, how, *state[:5])
        assert found == [(at + 1, record_loops.KEYLESS) for at in range(7)]
        assert form.check(data, 7, 0, 0, 10, record_loops.NEEDS_KEY)[5:8] == (0, 7, 0)
        assert form.check(data, 7, 0, 0, 10, 0)[5:8] == (0, 0, 3)
        assert form.check(data, 7, 0, 0, 10, record_loops.LISTS)[1] == 2
