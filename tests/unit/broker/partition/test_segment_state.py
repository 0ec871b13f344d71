"""D6: what an owner writes down is what the next owner needs, exactly up to the last entry."""

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.broker.partition.segment_state import PartitionState, decode_index
from tailrace.core.errors import CorruptData
from tailrace.protocol.distributedlog.dlsn import DLSN
from tailrace.protocol.distributedlog.record import LogRecord, record_parts
from tailrace.protocol.ids import LedgerId
from tailrace.protocol.records.batch import read_header, stamp
from tailrace.protocol.records.record import Producer
from tests.unit.broker.fakes import batch


def stamped(offset: int, epoch: int, count: int = 2, producer: Producer | None = None) -> bytes:
    data = batch(count, producer=producer, timestamp=1000 + offset)
    stamp(data, offset, epoch)
    return bytes(data)


def fill(state: PartitionState, epochs: list[int], first: int = 0) -> list[LogRecord]:
    """Observe two records per batch, one batch per epoch given; producer 4 counts on."""
    records = []
    state.begin_segment(1, LedgerId(1))
    for number, epoch in enumerate(epochs):
        data = stamped(first + 2 * number, epoch, producer=Producer(4, 0, 2 * number))
        state.observe(1, number, [record_parts(first + 2 * number + 1, (data,), len(data))])
        records.append(LogRecord(first + 2 * number + 1, data))
    return records


def test_replaying_gives_the_state_that_observing_gave() -> None:
    live, late = PartitionState(5), PartitionState(5)
    records = fill(live, [1, 1, 3, 3, 7])
    late.restore(None)
    late.begin_segment(1, LedgerId(1))
    for number, record in enumerate(records):
        late.replay(DLSN(1, number, 0), record)
    assert late.snapshot() == live.snapshot()
    assert late.index() == live.index()
    assert late.epochs.entries == ((1, 0), (3, 4), (7, 8))
    assert late.next_offset == 10


def test_a_snapshot_restores_into_the_same_state() -> None:
    state = PartitionState(5)
    fill(state, [1, 4])
    again = PartitionState(9)
    again.restore(state.snapshot())
    assert again.snapshot() == state.snapshot()
    assert again.next_offset == 4
    again.restore(None)
    assert (again.next_offset, len(again.producers), again.epochs.entries) == (0, 0, ())


def test_the_index_tells_what_the_segment_holds() -> None:
    state = PartitionState(5)
    records = fill(state, [1, 1, 1])
    totals = decode_index(state.index()).totals
    assert (totals.first_offset, totals.next_offset, totals.batches) == (0, 6, 3)
    assert totals.records == 6
    assert totals.size_bytes == sum(len(r.payload) for r in records)
    assert (totals.max_timestamp, totals.max_timestamp_offset) == (1004, 4)


def test_a_new_segment_begins_a_new_index_and_old_ones_are_few() -> None:
    state = PartitionState(5)
    for lssn in range(1, 30):
        state.begin_segment(lssn, LedgerId(lssn))
        offset = state.next_offset
        data = stamped(offset, 1)
        state.observe(lssn, 0, [record_parts(offset + 1, (data,), len(data))])
    assert decode_index(state.index()).totals.first_offset == 56
    assert len(state.indexes) == 8
    assert list(state.indexes)[-1] == 29


@pytest.mark.parametrize("payload", [b"", b"short", bytes(61), stamped(3, 1)[:60]])
def test_a_record_that_is_no_batch_is_corrupt(payload: bytes) -> None:
    state = PartitionState(5)
    with pytest.raises(CorruptData):
        state.replay(DLSN(1, 0, 0), LogRecord(1, payload))


def test_an_offset_that_goes_back_is_corrupt() -> None:
    state = PartitionState(5)
    state.replay(DLSN(1, 0, 0), LogRecord(11, stamped(10, 1)))
    with pytest.raises(CorruptData, match="offset 10"):
        state.replay(DLSN(1, 1, 0), LogRecord(11, stamped(10, 1)))


def test_every_cut_and_every_tail_is_refused() -> None:
    state = PartitionState(5)
    fill(state, [1, 2])
    snapshot, index = state.snapshot(), state.index()
    for length in range(1, len(snapshot)):
        with pytest.raises(CorruptData):
            PartitionState(0).restore(snapshot[:length])
    for length in range(len(index)):
        with pytest.raises(CorruptData):
            decode_index(index[:length])
    with pytest.raises(CorruptData):
        PartitionState(0).restore(snapshot + b"x")
    with pytest.raises(CorruptData):
        decode_index(index + b"x")
    with pytest.raises(CorruptData):
        PartitionState(0).restore(b"\x04" + snapshot[1:])


@settings(max_examples=150, deadline=None)
@given(st.binary(min_size=1, max_size=150))
def test_random_bytes_restore_or_are_corrupt(data: bytes) -> None:
    for decode in (PartitionState(0).restore, decode_index):
        with contextlib.suppress(CorruptData):
            decode(data)


def test_log_append_time_is_kept_for_duplicates() -> None:
    from tailrace.protocol.records.batch import stamp_log_append_time

    data = batch(1, producer=Producer(4, 0, 0))
    stamp(data, 0, 1)
    stamp_log_append_time(data, 777)
    state = PartitionState(5)
    state.replay(DLSN(1, 0, 0), LogRecord(0, bytes(data)))
    seen = state.producers.check(read_header(data))
    assert seen is not None
    assert seen == (0, 0, 0, 777)
