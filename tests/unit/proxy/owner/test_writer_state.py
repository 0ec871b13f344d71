"""The numbers that a stream has, against a dumb list of the records in it."""

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tailrace.core.errors import CorruptData, DLIllegalState
from tailrace.core.log.state_deltas import DELTA_BYTES_MAX
from tailrace.protocol.distributedlog.dlsn import DLSN
from tailrace.protocol.distributedlog.record import RecordParts, record_parts
from tailrace.protocol.errors import DecodeError
from tailrace.proxy.owner.operations import WriterSequence
from tailrace.proxy.owner.writer_state import RUNS_KEPT, WriterState

KEEP_MS = 100
IDS = (b"a", b"b", b"c" * 64)

steps = st.one_of(
    st.tuples(st.just("append"), st.sampled_from(IDS), st.integers(1, 6), st.integers(0, 6)),
    st.tuples(st.just("set"), st.sampled_from(IDS), st.integers(1, 3), st.just(0)),
    st.tuples(st.just("plain"), st.just(b""), st.integers(1, 3), st.just(0)),
    st.tuples(st.just("send"), st.just(b""), st.integers(1, 12), st.integers(0, 40)),
)


class Stream:
    """A stream with its waiting records, and what an owner and the log know of it."""

    def __init__(self) -> None:
        self.state = WriterState(100, KEEP_MS)
        self.waiting: list[tuple[bytes, int, int]] = []
        self.log: list[tuple[bytes, int, int, DLSN]] = []
        self.deltas: list[tuple[int, int, bytes]] = []
        self.snapshots: list[bytes] = []
        self.next: dict[bytes, int] = {}
        self.txid = 0

    def known(self, writer_id: bytes) -> int | None:
        """Return the next number by the records in the log alone."""
        mine = [each for each in self.log if each[0] == writer_id]
        if not mine or self.txid - mine[-1][2] > KEEP_MS:
            return None
        return mine[-1][1] + 1

    def append(self, writer_id: bytes, count: int, refused: int, values: int) -> None:
        first = self.state.next_sequence(writer_id, self.txid) or 0
        index, is_set = len(self.waiting), values > 0
        self.state.expect(index, WriterSequence(writer_id, first), count, is_set=is_set)
        taken = max(0, count - refused)
        if taken < count:
            self.state.withdraw(count - taken)
        self.waiting += [(writer_id, first + at, values) for at in range(taken)]

    def send(self, count: int, wait_ms: int) -> None:
        sent, self.waiting = self.waiting[:count], self.waiting[count:]
        if not sent:
            return
        self.txid += wait_ms
        entry_id, slot = len(self.deltas), 0
        records: list[RecordParts] = []
        for writer_id, number, values in sent:
            records.append(record_parts(self.txid, [b"x"], 1, values))
            if writer_id:
                self.log.append((writer_id, number, self.txid, DLSN(1, entry_id, slot)))
            slot += values or 1
        self.state.observe(1, entry_id, records)
        self.deltas.append((entry_id, self.txid, self.state.delta()))
        self.snapshots.append(self.state.snapshot())

    def do(self, step: tuple[Any, ...]) -> None:
        kind, writer_id, count, other = step
        if kind == "append":
            self.append(writer_id, count, other, 0)
        elif kind == "set":
            self.append(writer_id, 1, 0, count)
        elif kind == "plain":
            self.waiting += [(b"", 0, 0)] * count
        else:
            self.send(count, other)

    def restored(self, snapshot_at: int) -> WriterState:
        """Return what the next owner knows by a snapshot and the deltas behind it."""
        state = WriterState(100, KEEP_MS)
        state.restore(None)
        if snapshot_at >= 0:
            list(state.restoring(self.snapshots[snapshot_at]))
        for entry_id, txid, delta in self.deltas[snapshot_at + 1 :]:
            state.apply(1, entry_id, txid, memoryview(delta))
        return state


@given(st.lists(steps, max_size=40), st.integers(-1, 40))
@example(
    [
        ("set", b"b", 1, 0), ("plain", b"", 2, 0), ("set", b"a", 1, 0), ("send", b"", 1, 0),
        ("send", b"", 1, 21), ("send", b"", 1, 40), ("send", b"", 1, 40),
    ], 0,
)  # fmt: skip
def test_what_is_known_is_what_the_log_has(script: list[Any], snapshot_at: int) -> None:
    stream = Stream()
    for step in script:
        stream.do(step)
    snapshot_at = min(snapshot_at, len(stream.snapshots) - 1)
    for state in (stream.restored(snapshot_at), stream.restored(len(stream.snapshots) - 1)):
        for writer_id in IDS:
            assert state.next_sequence(writer_id, stream.txid) == stream.known(writer_id)
        assert state.snapshot() == (stream.snapshots or [state.snapshot()])[-1]
    for writer_id in IDS:
        waiting = [number for mine, number, _ in stream.waiting if mine == writer_id]
        expected = waiting[-1] + 1 if waiting else stream.known(writer_id)
        assert stream.state.next_sequence(writer_id, stream.txid) == expected
        check_places(stream, writer_id)


def check_places(stream: Stream, writer_id: bytes) -> None:
    """A place that is given is right, and those of a known writer's last entries are given."""
    is_known = stream.known(writer_id) is not None
    mine = [each for each in stream.log if each[0] == writer_id]
    last = {number: dlsn for _, number, _, dlsn in mine}
    begun = [at for at, each in enumerate(mine) if each[1] == 0]
    of_this_life = mine[begun[-1] :] if begun else []
    for at, (_, number, _, _) in enumerate(reversed(of_this_life)):
        found = stream.state.place_of(writer_id, number)
        assert found == last[number] or (found is None and (at >= RUNS_KEPT or not is_known))


def test_bytes() -> None:
    state = WriterState(10, KEEP_MS)
    assert state.snapshot() == b"TRWS\1"
    state.expect(0, WriterSequence(b"id", 0), 2, is_set=False)
    state.observe(3, 4, [record_parts(9, [b"x"], 1)] * 2)
    run = b"\0\0\0\0\0\0\0\0" + b"\0\0\0\2"
    assert state.delta() == b"\2id" + run + b"\0\0\0\0"
    head = b"\2id" + b"\0\0\0\0\0\0\0\2" + b"\0\0\0\0\0\0\0\x09" + b"\1"
    place = b"\0\0\0\0\0\0\0\3" + b"\0\0\0\0\0\0\0\4" + b"\0\0\0\0"
    assert state.snapshot() == b"TRWS\1" + head + run + place
    state.observe(3, 5, [record_parts(9, [b"x"], 1)])
    assert state.delta() == b""


@given(st.binary(max_size=60))
def test_bytes_that_are_no_delta_are_an_error_or_harmless(delta: bytes) -> None:
    state = WriterState(10, KEEP_MS)
    try:
        state.apply(1, 1, 1, memoryview(delta))
    except DecodeError:
        assert state.writers == 0


@given(st.binary(max_size=60))
def test_bytes_that_are_no_snapshot_are_an_error(rest: bytes) -> None:
    state = WriterState(10, KEEP_MS)
    try:
        list(state.restoring(b"TRWS\1" + rest))
    except CorruptData:
        return
    assert len(state.snapshot()) <= len(b"TRWS\1" + rest)


@pytest.mark.parametrize("snapshot", [b"", b"TRW", b"TRWS\2", b"\0\0another"])
def test_a_snapshot_of_another_kind_is_refused(snapshot: bytes) -> None:
    with pytest.raises(DLIllegalState, match="another kind of owner"):
        list(WriterState(10, KEEP_MS).restoring(snapshot))


def test_what_waits_fits_into_one_delta() -> None:
    state = WriterState(10_000, KEEP_MS)
    ids = [b"%064d" % number for number in range(10_000)]
    taken = 0
    while state.has_room(ids[taken], 0):
        state.expect(taken, WriterSequence(ids[taken], 0), 1, is_set=False)
        taken += 1
    assert 3_000 < taken < 10_000
    state.observe(1, 1, [record_parts(0, [b"x"], 1)] * taken)
    assert len(state.delta()) <= DELTA_BYTES_MAX
    assert state.has_room(ids[taken], 0)


def test_record_sets_that_wait_fit_into_one_delta() -> None:
    state = WriterState(10, KEEP_MS)
    taken = 0
    while state.has_room(b"id", 0):
        state.expect(taken, WriterSequence(b"id", taken), 1, is_set=True)
        taken += 1
    state.observe(1, 1, [record_parts(0, [b"x"], 1, 2)] * taken)
    assert len(state.delta()) <= DELTA_BYTES_MAX
    assert state.place_of(b"id", taken - 1) == DLSN(1, 1, 2 * (taken - 1))
