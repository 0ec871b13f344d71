"""Times of records, read fast, equal what a walk over the records says, on good bytes and bad."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.errors import DecodeError
from protocol.records.batch import read_header
from protocol.records.record import Record, build_batch, payload_of, walk
from protocol.records.times import iter_times

deltas = st.integers(0, 200) | st.integers(-(1 << 40), 1 << 40)
sizes = st.integers(0, 200) | st.sampled_from([8000, 9000])


def walked(batch: bytes) -> list[tuple[int, int]]:
    header, payload = payload_of(batch)
    return [
        (header.base_offset + shape.offset_delta, header.base_timestamp + shape.timestamp_delta)
        for shape in walk(header, payload)
    ]


def timed(batch: bytes) -> list[tuple[int, int]]:
    return list(iter_times(*payload_of(batch)))


@given(st.lists(st.tuples(deltas, st.integers(1, 20_000), sizes), min_size=1, max_size=30))
def test_as_a_walk(shapes: list[tuple[int, int, int]]) -> None:
    offset, records = 0, []
    for time, step, size in shapes:
        records.append(Record(offset=offset, timestamp=(1 << 41) + time, value=bytes(size)))
        offset += step
    batch = bytes(build_batch(records, base_offset=0))
    assert timed(batch) == walked(batch) == [(each.offset, each.timestamp) for each in records]


@given(
    st.lists(st.tuples(deltas, st.integers(1, 20_000), sizes), min_size=1, max_size=30),
    st.integers(0, 200) | deltas,
)
def test_those_since_a_time_are_those_of_all(
    shapes: list[tuple[int, int, int]], since: int
) -> None:
    records = [
        Record(offset=offset, timestamp=(1 << 41) + time, value=bytes(size))
        for offset, (time, _, size) in enumerate(shapes)
    ]
    header, payload = payload_of(bytes(build_batch(records, base_offset=0)))
    since += 1 << 41
    assert list(iter_times(header, payload, since)) == [
        each for each in iter_times(header, payload) if each[1] >= since
    ]


@given(st.binary(min_size=14, max_size=60), st.integers(1, 4))
def test_bad_bytes_are_refused_or_read_alike(payload: bytes, count: int) -> None:
    whole = build_batch([Record(offset=0, timestamp=5, value=b"v")])
    header = read_header(whole)._replace(record_count=count)

    def outcome(read: object) -> object:
        try:
            return list(read())  # type: ignore[operator]
        except DecodeError:
            return None

    fast = outcome(lambda: [time for _, time in iter_times(header, payload)])
    slow = outcome(
        lambda: [header.base_timestamp + each.timestamp_delta for each in walk(header, payload)]
    )
    assert slow is None or fast == slow  # keys and values are not looked at
    none = outcome(lambda: list(iter_times(header, payload, 1 << 80)))
    assert none in ([], None)
    assert slow is None or none == []


@pytest.mark.parametrize("cut", range(1, 12))
def test_a_cut_payload_is_refused(cut: int) -> None:
    batch = build_batch([Record(offset=n, timestamp=n, value=b"value") for n in range(3)])
    header, payload = payload_of(bytes(batch))
    with pytest.raises(DecodeError):
        list(iter_times(header, bytes(payload)[:-cut]))
    with pytest.raises(DecodeError):
        list(iter_times(header, bytes(payload)[:-cut], 1 << 80))
