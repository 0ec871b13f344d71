"""Producers with transactions: ProducerStateManagerTest's rules, and an oracle of all that was."""

from collections.abc import Iterable
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.broker.partition import producers as module
from tailrace.broker.partition.producer_state import SeenBatch
from tailrace.broker.partition.producers import EPOCH_MAX, Producers
from tailrace.protocol.errors import BadValue, ErrorCode
from tailrace.protocol.records.batch import TRANSACTIONAL, BatchHeader
from tailrace.protocol.records.control import EndTransaction

E = ErrorCode


def header(
    sequence: int, *, pid: int = 7, epoch: int = 0, txn: bool = True, count: int = 1
) -> BatchHeader:
    attributes = TRANSACTIONAL if txn else 0
    return BatchHeader(0, 100, -1, 2, 0, attributes, count - 1, 0, 0, pid, epoch, sequence, count)


def end(
    state: Producers, offset: int, *, pid: int = 7, epoch: int = 0, coordinator: int = 0,
    committed: bool = True,
) -> tuple[int, int, int, int, bool] | None:  # fmt: skip
    marker = EndTransaction(committed, coordinator)
    return state.end_transaction(pid, epoch, marker, offset, 1000)


def in_transaction(epoch: int = 0) -> Producers:
    """Return a state with a transaction of producer 7 that begins at offset 10."""
    state = Producers()
    state.record(header(0, epoch=epoch), 10, 1000)
    return state


def marker_code(
    state: Producers, *, epoch: int = 0, coordinator: int = 0, version: int = 0
) -> ErrorCode:
    return state.check_marker(7, epoch, coordinator, version)


@pytest.mark.parametrize(
    ("incoming", "verified", "expected"),
    [
        (header(1), False, None),
        (header(0), False, SeenBatch(0, 10, 0, -1)),
        (header(2), False, E.OUT_OF_ORDER_SEQUENCE_NUMBER),
        (header(1, txn=False), True, E.INVALID_TXN_STATE),
        (header(2, txn=False), True, E.OUT_OF_ORDER_SEQUENCE_NUMBER),
        (header(0, txn=False), True, SeenBatch(0, 10, 0, -1)),
        (header(1, epoch=-1), True, E.INVALID_PRODUCER_EPOCH),
        (header(0, epoch=1), False, E.INVALID_TXN_STATE),
        (header(0, epoch=1), True, None),
        (header(1, epoch=1), True, E.OUT_OF_ORDER_SEQUENCE_NUMBER),
        (header(0, epoch=1, txn=False), True, E.INVALID_TXN_STATE),
        (header(0, pid=8), False, E.INVALID_TXN_STATE),
        (header(5, pid=8), True, None),
        (header(5, pid=8, txn=False), False, None),
    ],
)
def test_within_a_transaction(
    incoming: BatchHeader, verified: bool, expected: SeenBatch | ErrorCode | None
) -> None:
    assert in_transaction().check(incoming, verified) == expected


@pytest.mark.parametrize(
    ("incoming", "verified", "expected"),
    [
        (header(1), False, E.INVALID_TXN_STATE),
        (header(1), True, None),
        (header(0), False, SeenBatch(0, 10, 0, -1)),
        (header(2), False, E.INVALID_TXN_STATE),
        (header(2), True, E.OUT_OF_ORDER_SEQUENCE_NUMBER),
        (header(1, txn=False), False, None),
    ],
)
def test_after_a_marker_of_the_same_epoch_sequences_go_on(
    incoming: BatchHeader, verified: bool, expected: SeenBatch | ErrorCode | None
) -> None:
    state = in_transaction()
    assert end(state, 11) == (7, 10, 11, 12, True)
    assert state.check(incoming, verified) == expected


@pytest.mark.parametrize(
    ("incoming", "expected"),
    [
        (header(1, epoch=1), E.OUT_OF_ORDER_SEQUENCE_NUMBER),
        (header(1, epoch=2), E.OUT_OF_ORDER_SEQUENCE_NUMBER),
        (header(0, epoch=1), None),
        (header(0, epoch=0), E.INVALID_PRODUCER_EPOCH),
        (header(1, epoch=0), E.INVALID_PRODUCER_EPOCH),
    ],
)
def test_a_marker_that_bumps_the_epoch_resets_sequences(
    incoming: BatchHeader, expected: ErrorCode | None
) -> None:
    state = in_transaction()
    end(state, 11, epoch=1)
    assert state.check(incoming, verified=True) == expected
    assert list(state.active()) == [(7, 1, -1, 1000, 0, -1)]


def test_a_marker_of_a_producer_that_is_not_known_fences_too() -> None:
    state = Producers()
    assert end(state, 27, epoch=2) is None
    assert list(state.active()) == [(7, 2, -1, 1000, 0, -1)]
    assert state.check(header(0), verified=True) is E.INVALID_PRODUCER_EPOCH
    assert state.check(header(17, epoch=2), verified=True) is E.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert state.check(header(0, epoch=2), verified=True) is None


def test_who_may_write_a_marker() -> None:
    state = in_transaction(epoch=5)
    assert marker_code(state, epoch=4) is E.INVALID_PRODUCER_EPOCH
    assert marker_code(state, epoch=5) is E.NONE
    end(state, 11, epoch=5, coordinator=1)
    assert marker_code(state, epoch=5, coordinator=1) is E.NONE, "a repeat"
    assert marker_code(state, epoch=5, coordinator=2) is E.NONE
    assert end(state, 12, epoch=5, coordinator=2) is None
    assert marker_code(state, epoch=5, coordinator=1) is E.TRANSACTION_COORDINATOR_FENCED
    again, _ = Producers.decode(state.encode())
    assert marker_code(again, epoch=5, coordinator=1) is E.TRANSACTION_COORDINATOR_FENCED


@pytest.mark.parametrize(("version", "code"), [(1, E.NONE), (2, E.INVALID_PRODUCER_EPOCH)])
def test_a_late_marker_of_version_2_does_not_end_the_next_transaction(
    version: int, code: ErrorCode
) -> None:
    state = in_transaction()
    assert marker_code(state, epoch=1, version=version) is E.NONE
    end(state, 11, epoch=1)
    assert marker_code(state, epoch=1, version=version) is E.NONE, "a repeat"
    state.record(header(0, epoch=1), 12, 1000)
    assert marker_code(state, epoch=1, version=version) is code


def test_at_the_last_epoch_a_marker_of_version_2_cannot_bump_it() -> None:
    state = in_transaction(epoch=EPOCH_MAX)
    assert marker_code(state, epoch=EPOCH_MAX, version=2) is E.NONE


def test_a_transaction_goes_on_in_a_new_epoch_from_where_it_began() -> None:
    state = in_transaction()
    state.record(header(0, epoch=1), 11, 1000)
    assert state.is_in_transaction(7, 1)
    assert not state.is_in_transaction(7, 0)
    assert end(state, 12, epoch=1) == (7, 10, 12, 13, True)


def test_the_stable_offset_that_a_marker_leaves_is_the_oldest_transaction_still_open() -> None:
    state = Producers()
    for pid, first in ((1, 100), (2, 125), (3, 157)):
        state.record(header(0, pid=pid), first, 1000)
    assert list(state.open) == [100, 125, 157]
    assert end(state, 172, pid=1, committed=False) == (1, 100, 172, 125, False)
    assert end(state, 192, pid=3) == (3, 157, 192, 125, True)
    assert end(state, 270, pid=2) == (2, 125, 270, 271, True)
    assert end(state, 271, pid=2) is None
    assert not state.open


def test_open_transactions_never_expire() -> None:
    state = in_transaction()
    state.record(header(0, pid=8, txn=False), 11, 1000)
    assert state.expire(10**12) == 1
    assert state.is_in_transaction(7, 0)
    end(state, 12)
    assert state.expire(1001) == 1
    assert len(state) == 0


def test_a_flood_of_producers_takes_no_open_transaction(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PRODUCERS_MAX", 100)
    state = in_transaction()
    for pid in range(1000, 2000):
        state.record(header(0, pid=pid, txn=False), pid, pid + 1000)
    assert len(state) <= 100
    assert state.is_in_transaction(7, 0)


def test_open_transactions_are_bounded_and_those_that_are_there_go_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "TRANSACTIONS_MAX", 2)
    state = in_transaction()
    state.record(header(0, pid=8, txn=False), 11, 1000)
    assert state.check(header(1, pid=8), verified=True) is None
    state.record(header(1, pid=8), 12, 1000)
    assert state.check(header(0, pid=9), verified=True) is E.NOT_ENOUGH_REPLICAS
    assert state.check(header(2, pid=8)) is None
    end(state, 13)
    assert state.check(header(0, pid=9), verified=True) is None


def test_transactions_that_the_broker_opens_itself_are_bounded_as_well(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "TRANSACTIONS_MAX", 1)
    state = in_transaction()
    state.record(header(0, pid=8, txn=False), 11, 1000)
    assert state.check_own(header(0)) is None
    for other in (8, 9):
        assert state.check_own(header(0, pid=other)) is E.NOT_ENOUGH_REPLICAS
    assert state.check_own(header(0, pid=9, txn=False)) is None


def test_the_brokers_own_batches_are_judged_by_epoch_and_transaction_alone() -> None:
    state = in_transaction(epoch=3)
    assert state.check_own(header(-1, epoch=3)) is None
    assert state.check_own(header(0, epoch=4)) is None
    assert state.check_own(header(0, epoch=2)) is E.INVALID_PRODUCER_EPOCH
    assert state.check_own(header(1, epoch=3, txn=False)) is E.INVALID_TXN_STATE
    assert state.check_own(header(9, pid=8)) is None


def test_state_of_version_1_is_read() -> None:
    state = Producers()
    state.record(header(4, txn=False, epoch=2), 10, 1000)
    old = b"\0\0\0\1" + (7).to_bytes(8, "big") + b"\0\2" + (1000).to_bytes(8, "big") + b"\1"
    old += b"\0\0\0\4" + (10).to_bytes(8, "big") + bytes(4) + b"\xff" * 8
    again, at = Producers.decode(old, 0, version=1)
    assert at == len(old)
    assert again.encode() == state.encode()


def test_two_transactions_of_one_offset_are_refused() -> None:
    state = in_transaction()
    state.record(header(0, pid=8), 10, 1000)
    with pytest.raises(BadValue, match="two transactions"):
        Producers.decode(state.encode())


class Event(NamedTuple):
    """What went into the log: a batch, or a marker if `sequence` is None."""

    epoch: int
    sequence: int | None
    txn: bool
    offset: int
    coordinator: int = 0


class Oracle:
    """Everything that ever went into the log, per producer, searched from the start."""

    def __init__(self) -> None:
        self.log: dict[int, list[Event]] = {}

    def open_since(self, pid: int) -> int | None:
        first = None
        for event in self.log.get(pid, []):
            if event.sequence is None:
                first = None
            elif event.txn and first is None:
                first = event.offset
        return first

    def check(self, h: BatchHeader, verified: bool) -> object:
        events = self.log.get(h.producer_id, [])
        txn = bool(h.attributes & TRANSACTIONAL)
        since = self.open_since(h.producer_id)
        if not events:
            return E.INVALID_TXN_STATE if txn and not verified else None
        epoch = events[-1].epoch
        if h.producer_epoch < epoch:
            return E.INVALID_PRODUCER_EPOCH
        mine = [e for e in self._of_last_epoch(events) if e.sequence is not None]
        if h.producer_epoch == epoch:
            for event in mine[-5:]:
                if event.sequence == h.base_sequence:
                    return event.offset
        last = mine[-1].sequence if mine and h.producer_epoch == epoch else -1
        assert last is not None
        goes_on = since is not None and h.producer_epoch == epoch
        rules = [
            (txn and not verified and not goes_on, E.INVALID_TXN_STATE),
            (h.base_sequence != last + 1, E.OUT_OF_ORDER_SEQUENCE_NUMBER),
            (since is not None and not txn, E.INVALID_TXN_STATE),
        ]
        return next((code for is_broken, code in rules if is_broken), None)

    def check_marker(self, pid: int, epoch: int, coordinator: int, version: int) -> ErrorCode:
        events = self.log.get(pid, [])
        if not events:
            return E.NONE
        last = events[-1].epoch
        is_late = version == 2 and epoch == last and self.open_since(pid) is not None
        if epoch < last or is_late:
            return E.INVALID_PRODUCER_EPOCH
        known = [e.coordinator for e in events if e.sequence is None]
        return E.TRANSACTION_COORDINATOR_FENCED if known and coordinator < known[-1] else E.NONE

    @staticmethod
    def _of_last_epoch(events: list[Event]) -> list[Event]:
        epoch, found = events[-1].epoch, []
        for event in reversed(events):
            if event.epoch != epoch:
                break
            found.insert(0, event)
        return found


batches = st.tuples(
    st.just("batch"), st.integers(0, 2), st.integers(0, 3), st.integers(0, 5), st.booleans(),
    st.booleans(),
)  # fmt: skip
markers = st.tuples(
    st.just("marker"), st.integers(0, 2), st.integers(0, 3), st.integers(0, 2), st.booleans(),
    st.booleans(),
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(st.lists(st.one_of(batches, markers), max_size=60))
def test_every_verdict_is_the_oracles(
    steps: Iterable[tuple[str, int, int, int, bool, bool]],
) -> None:
    state, oracle, offset = Producers(), Oracle(), 0
    for kind, pid, epoch, number, flag, verified in steps:
        events = oracle.log.setdefault(pid, [])
        if kind == "batch":
            h = header(number, pid=pid, epoch=epoch, txn=flag)
            verdict = state.check(h, verified)
            shown = verdict.base_offset if isinstance(verdict, SeenBatch) else verdict
            assert shown == oracle.check(h, verified)
            if verdict is None:
                state.record(h, offset, 5)
                events.append(Event(epoch, number, flag, offset))
                offset += 1
        else:
            version = 2 if verified else 0
            code = state.check_marker(pid, epoch, number, version)
            assert code == oracle.check_marker(pid, epoch, number, version)
            if not code:
                since = oracle.open_since(pid)
                ended = end(state, offset, pid=pid, epoch=epoch, coordinator=number, committed=flag)
                assert (ended.first_offset if ended else None) == since  # type: ignore[attr-defined]
                events.append(Event(epoch, None, False, offset, number))
                offset += 1
        firsts = sorted(f for p in oracle.log if (f := oracle.open_since(p)) is not None)
        assert list(state.open) == firsts
        again, _ = Producers.decode(state.encode())
        assert (list(again.active()), again.open) == (list(state.active()), state.open)
