"""Gathering records into sets, and the times of further tries."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.proxy.client.record_sets import (
    RECORD_BYTES,
    Gathered,
    RecordSetBuffer,
    Turns,
    speculations_ms,
)

LIMIT = 40


@settings(max_examples=50)
@given(st.lists(st.binary(max_size=60)))
def test_sets_have_all_records_in_order_and_no_more_bytes_than_the_limit(
    payloads: list[bytes],
) -> None:
    buffer, sets = RecordSetBuffer(LIMIT), list[Gathered]()
    for number, payload in enumerate(payloads):
        sets += buffer.add(payload, number)
        waiting = sum(len(each) + RECORD_BYTES for each in buffer._open.payloads)
        assert waiting < LIMIT
    if len(buffer):
        sets.append(buffer.take())
    assert [each for one in sets for each in one.payloads] == payloads
    assert [each for one in sets for each in one.handles] == list(range(len(payloads)))
    for one in sets:
        assert one.payloads
        size = sum(len(each) + RECORD_BYTES for each in one.payloads)
        assert size <= LIMIT or len(one.payloads) == 1


def test_each_set_begins_with_another_stream_and_can_go_to_all() -> None:
    turns = Turns(["a", "b", "c", "b"])
    assert [turns.next() for _ in range(4)] == [
        ["a", "b", "c"],
        ["b", "c", "a"],
        ["c", "a", "b"],
        ["a", "b", "c"],
    ]
    with pytest.raises(ValueError, match="one at least"):
        Turns([])


def test_further_streams_are_tried_after_50_ms_and_then_ever_later() -> None:
    assert speculations_ms(50, 200, 500) == [50, 150, 350]
    assert speculations_ms(50, 200, 1_000) == [50, 150, 350, 550, 750, 950]
    assert speculations_ms(50, 200, 50) == []
