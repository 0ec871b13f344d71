import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.protocol.bookkeeper.availability import (
    EntryGroup,
    decode_availability,
    encode_availability,
)
from tailrace.protocol.bookkeeper.codec import decode_response
from tailrace.protocol.bookkeeper.messages import ListEntriesResponse
from tailrace.protocol.errors import DecodeError
from tests.golden import frames
from tests.strategies import hostile

entry_sets = st.sets(st.integers(0, 200)).map(sorted)


def test_javas_list_of_the_entries_of_a_ledger() -> None:
    (frame,) = [frame for frame in frames("wire-v3.txt") if "availabilityOf" in frame.meaning]
    response = decode_response(frame.data)[1]
    assert isinstance(response, ListEntriesResponse)
    assert response.availability is not None
    assert decode_availability(response.availability) == (EntryGroup(0, 0, 3, 0),)
    assert encode_availability([0, 1, 2]) == response.availability


def test_runs_become_groups_as_in_java() -> None:
    groups = decode_availability(encode_availability([0, 1, 3, 4, 6, 7, 20]))
    assert [(group.first, group.run_length) for group in groups] == [
        (0, 2),
        (3, 2),
        (6, 2),
        (20, 1),
    ]


@given(entry_sets)
def test_entries_come_back(entry_ids: list[int]) -> None:
    groups = decode_availability(encode_availability(entry_ids))
    assert [entry_id for group in groups for entry_id in group.entry_ids()] == entry_ids
    assert sum(group.entry_count for group in groups) == len(entry_ids)
    held = {entry for entry in range(-5, 210) if any(group.contains(entry) for group in groups)}
    assert held == set(entry_ids)


@given(st.integers(0, 50), st.integers(1, 5), st.integers(0, 5), st.integers(0, 5))
def test_a_periodic_group_as_striping_gives_it(
    first: int, run_length: int, more: int, runs: int
) -> None:
    period = run_length + more
    group = EntryGroup(first, first + runs * period, run_length, period)
    entry_ids = list(group.entry_ids())
    assert entry_ids == [
        first + run * period + at for run in range(runs + 1) for at in range(run_length)
    ]
    assert group.entry_count == len(entry_ids)
    assert {entry for entry in range(200) if group.contains(entry)} == set(entry_ids)


def packed(*group: int, version: int = 0, count: int = 1) -> bytes:
    return struct.pack(">ii56x", version, count) + struct.pack(">qqii", *group)


@pytest.mark.parametrize(
    "data",
    [
        packed(0, 0, 1, 0, version=1),
        packed(0, 0, 1, 0, count=2),
        packed(0, 0, 1, 0, count=-1),
        packed(-1, 0, 1, 1),
        packed(5, 4, 1, 1),
        packed(0, 0, 0, 0),
        packed(0, 9, 1, 0),
        packed(0, 9, 3, 2),
        packed(0, 7, 3, 4),
        packed(0, 9, 3, -3),
        b"",
        bytes(63),
    ],
)
def test_what_no_bookie_would_say_is_refused(data: bytes) -> None:
    with pytest.raises(DecodeError):
        decode_availability(data)


@given(hostile(entry_sets.map(encode_availability)))
def test_hostile_lists_give_groups_or_a_decode_error(data: bytes) -> None:
    try:
        groups = decode_availability(data)
    except DecodeError:
        return
    assert all(group.entry_count > 0 and group.contains(group.first) for group in groups)
