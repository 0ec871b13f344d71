"""Records found by time are those that reading all of them finds, on good bytes and bad."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.protocol.errors import DecodeError
from tailrace.protocol.ids import Buffer
from tailrace.protocol.records import window
from tailrace.protocol.records.batch import BatchHeader, read_header
from tailrace.protocol.records.record import Record, build_batch, iter_records, payload_of
from tailrace.protocol.records.times import first_since, newest_from
from tests.strategies import hostile, record_batches

deltas = st.integers(0, 200) | st.integers(-(1 << 40), 1 << 40)
sizes = st.integers(0, 200) | st.sampled_from([8000, 9000])
BASE_MS = 1 << 41


@given(
    st.lists(st.tuples(deltas, st.integers(1, 20_000), sizes), min_size=1, max_size=30),
    deltas,
    st.integers(0, 100_000),
    st.booleans(),
)
def test_as_of_all_records(
    shapes: list[tuple[int, int, int]], since: int, first: int, small: bool
) -> None:
    offset, records = 1000, []
    for time, step, size in shapes:
        records.append(Record(offset=offset, timestamp=BASE_MS + time, value=bytes(size)))
        offset += step
    batch = bytes(build_batch(records, base_offset=1000))
    since += BASE_MS
    first = first % (offset + 10)
    kept = [(each.offset, each.timestamp) for each in records if each.offset >= first]
    header, payload = payload_of(batch)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(window, "WINDOW_BYTES", 64 if small else window.WINDOW_BYTES)
        found = first_since(header, payload, since, first)
        newest = newest_from(header, payload, first)
    assert found == next((each for each in kept if each[1] >= since), None)
    assert newest == max((time for _, time in kept), default=-1)


@given(hostile(record_batches(codec=st.just(0))), st.integers(0, 2000))
def test_bad_bytes_are_refused_or_read_alike(data: bytes, first: int) -> None:
    try:
        header, payload = payload_of(data)
        records = list(iter_records(data))
    except DecodeError:
        return  # keys, values and headers are not looked at here
    if not header.is_log_append_time:
        times = [each.timestamp for each in records if each.offset >= first]
        assert newest_from(header, payload, first) == max([-1, *times])


def outcome(header: BatchHeader, payload: Buffer) -> object:
    try:
        return newest_from(header, payload, 0)
    except DecodeError:
        return DecodeError


@given(st.binary(min_size=14, max_size=60), st.integers(1, 4))
def test_random_bytes(payload: bytes, count: int) -> None:
    whole = build_batch([Record(offset=0, timestamp=5, value=b"v")])
    header = read_header(whole)._replace(record_count=count)
    assert outcome(header, payload) == outcome(header, memoryview(payload))


@pytest.mark.parametrize("cut", range(1, 12))
def test_a_cut_payload_is_refused(cut: int) -> None:
    batch = build_batch([Record(offset=n, timestamp=n, value=b"value") for n in range(3)])
    header, payload = payload_of(bytes(batch))
    with pytest.raises(DecodeError):
        newest_from(header, bytes(payload)[:-cut], 0)
    with pytest.raises(DecodeError):
        first_since(header, bytes(payload)[:-cut], 1 << 80)
    assert first_since(header, bytes(payload)[:-cut], -(1 << 80)) == (0, 0)


def test_a_batch_of_millions_is_searched_to_its_end() -> None:
    count = 2_000_000
    payload = b"\x0c\0\0\0\1\1\0" * (count - 1) + b"\x0c\0\x02\0\1\1\0"
    header = read_header(build_batch([Record(0, 5, value=b"v")]))._replace(record_count=count)
    assert first_since(header, memoryview(payload), 6) == (0, 6)
    assert newest_from(header, payload, 0) == 6
    assert newest_from(header, payload, 1) == -1
