"""Idempotent producers: the table of reference Kafka 4.2, a naive oracle, and the codec."""

import contextlib
from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.broker.partition import producers as module
from tailrace.broker.partition.producer_state import SeenBatch
from tailrace.broker.partition.producers import Producers
from tailrace.protocol.errors import DecodeError, ErrorCode
from tailrace.protocol.records.batch import BatchHeader
from tailrace.protocol.records.control import EndTransaction
from tests.counted_loop import calls_of

INT_MAX = 2**31 - 1


def header(sequence: int, count: int = 1, *, pid: int = 7, epoch: int = 0) -> BatchHeader:
    return BatchHeader(0, 100, -1, 2, 0, 0, count - 1, 0, 0, pid, epoch, sequence, count)


def after(*seen: tuple[int, int], epoch: int = 0) -> Producers:
    """Return a state that took these (sequence, count) batches, offsets from 0."""
    state, offset = Producers(), 0
    for sequence, count in seen:
        state.record(header(sequence, count, epoch=epoch), offset, 1000)
        offset += count
    return state


def test_an_unknown_producer_may_begin_anywhere() -> None:
    assert Producers().check(header(17)) is None


@pytest.mark.parametrize(
    ("incoming", "expected"),
    [
        (header(5, 5), None),
        (header(0, 5), SeenBatch(4, 0, 4, -1)),
        (header(6), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
        (header(4), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
        (header(0, 4), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
        (header(1, 4), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
        (header(0, epoch=1), None),
        (header(1, epoch=1), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
        (header(5, epoch=-1), ErrorCode.INVALID_PRODUCER_EPOCH),
    ],
)
def test_after_one_batch_of_five(
    incoming: BatchHeader, expected: SeenBatch | ErrorCode | None
) -> None:
    assert after((0, 5)).check(incoming) == expected


def test_only_the_newest_five_batches_are_remembered() -> None:
    state = after(*[(n, 1) for n in range(7)])
    assert state.check(header(1)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert state.check(header(2)) == SeenBatch(2, 2, 0, -1)
    assert state.check(header(6)) == SeenBatch(6, 6, 0, -1)


def test_sequences_wrap_between_batches_and_inside_one() -> None:
    state = after((INT_MAX - 1, 2))
    assert state.check(header(0)) is None
    assert state.check(header(1)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    inside = after((INT_MAX - 1, 5))
    assert inside.check(header(3)) is None
    assert inside.check(header(INT_MAX - 1, 5)) == SeenBatch(2, 0, 4, -1)


def test_a_new_epoch_forgets_the_batches_of_the_old_one() -> None:
    state = after((0, 5))
    state.record(header(0, epoch=2), 5, 1000)
    assert state.check(header(0, 5)) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert state.check(header(0, 5, epoch=2)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert state.check(header(1, epoch=2)) is None


def test_who_is_silent_expires_and_may_begin_anywhere_again() -> None:
    state = after((0, 5))
    assert state.expire(1000) == 0
    assert state.expire(1001) == 1
    assert state.check(header(99)) is None


def test_a_flood_of_producers_is_bounded_and_takes_the_oldest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "PRODUCERS_MAX", 100)
    state = Producers()
    for pid in range(1000):
        state.record(header(0, pid=pid), pid, pid)
    assert 80 < len(state) <= 100
    assert state.check(header(0, pid=999)) == SeenBatch(0, 999, 0, -1)
    assert state.check(header(50, pid=0)) is None


class Oracle:
    """All batches ever taken, searched from the start."""

    def __init__(self) -> None:
        self.taken: dict[int, list[tuple[int, int, int, int]]] = {}

    def check(self, h: BatchHeader) -> object:
        mine = self.taken.get(h.producer_id, [])
        if not mine:
            return None
        epoch = mine[-1][0]
        if h.producer_epoch < epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if h.producer_epoch > epoch:
            return None if h.base_sequence == 0 else ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        recent = [each for each in mine if each[0] == epoch][-5:]
        for _, sequence, count, offset in recent:
            if (sequence, count) == (h.base_sequence, h.record_count):
                return offset
        _, sequence, count, _ = recent[-1]
        expected = (sequence + count) % 2**31
        return None if h.base_sequence == expected else ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER

    def record(self, h: BatchHeader, offset: int) -> None:
        self.taken.setdefault(h.producer_id, []).append(
            (h.producer_epoch, h.base_sequence, h.record_count, offset)
        )


steps = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 2), st.integers(0, 12), st.integers(1, 3)),
    max_size=60,
)


@settings(max_examples=200, deadline=None)
@given(steps)
def test_every_verdict_is_the_oracles(steps: Iterable[tuple[int, int, int, int]]) -> None:
    state, oracle, offset = Producers(), Oracle(), 0
    for pid, epoch, sequence, count in steps:
        h = header(sequence, count, pid=pid, epoch=epoch)
        verdict = state.check(h)
        shown = verdict.base_offset if isinstance(verdict, SeenBatch) else verdict
        assert shown == oracle.check(h)
        if verdict is None:
            state.record(h, offset, 5)
            oracle.record(h, offset)
            offset += count


@settings(max_examples=100, deadline=None)
@given(steps)
def test_what_is_encoded_decodes_and_judges_alike(
    steps: Iterable[tuple[int, int, int, int]],
) -> None:
    state, offset = Producers(), 0
    for pid, epoch, sequence, count in steps:
        state.record(header(sequence, count, pid=pid, epoch=epoch), offset, offset, offset - 1)
        offset += count
    data = b"xx" + state.encode()
    again, end = Producers.decode(data, 2)
    assert end == len(data)
    assert again.encode() == state.encode() == state.copy().encode()
    for sequence in range(14):
        for pid in range(3):
            probe = header(sequence, pid=pid, epoch=1)
            assert again.check(probe) == state.check(probe)


def test_every_cut_is_refused() -> None:
    data = after((0, 5), (5, 1)).encode()
    for length in range(len(data)):
        with pytest.raises(DecodeError):
            Producers.decode(data[:length])


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=120))
def test_random_bytes_decode_or_are_refused(data: bytes) -> None:
    with contextlib.suppress(DecodeError):
        Producers.decode(data)


def test_a_copy_goes_its_own_way() -> None:
    state = after((0, 1))
    twin = state.copy()
    twin.record(header(1), 1, 1)
    assert state.check(header(1)) is None
    assert isinstance(twin.check(header(1)), SeenBatch)


def test_a_flood_in_one_moment_takes_a_part_of_the_producers_not_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "PRODUCERS_MAX", 100)
    state = Producers()
    for pid in range(101):
        state.record(header(0, pid=pid), pid, 1000)
    assert 80 < len(state) <= 100
    assert state.check(header(0, pid=99)) == SeenBatch(0, 99, 0, -1)


MANY = 5000


def many(count: int = MANY) -> Producers:
    state = Producers()
    for pid in range(count):
        for sequence in range(7):
            state.record(header(sequence, pid=pid), pid * 7 + sequence, 1000 + pid)
    return state


def test_a_snapshot_encodes_what_was_written_since_the_last_and_never_more_than_stated() -> None:
    state = many()
    assert calls_of(state.encode) < 20 * module.LOOSE_MAX
    again, _ = Producers.decode(state.encode())
    assert list(again.active()) == list(state.active())
    assert calls_of(state.encode) < 20  # nobody wrote since
    for pid in range(100):
        state.record(header(7, pid=pid), 100_000 + pid, 9000)
    assert 100 < calls_of(state.encode) < 100 * 20
    assert again.encode() != state.encode()
    for pid in range(100):
        again.record(header(7, pid=pid), 100_000 + pid, 9000)
    assert again.encode() == state.encode()


def test_reading_and_copying_many_producers_is_little_for_each() -> None:
    data = many().encode()
    assert calls_of(lambda: Producers.decode(data)) < 5 * MANY
    state, _ = Producers.decode(data)
    assert calls_of(state.copy) < 20
    twin = state.copy()
    twin.record(header(7, pid=3), 100_000, 9000)
    assert state.encode() == data != twin.encode()
    assert state.check(header(6, pid=3)) == SeenBatch(6, 27, 0, -1)
    assert twin.check(header(8, pid=3)) is None


def test_forgetting_the_most_silent_looks_at_no_more_than_it_forgets(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    state = many()
    state.record(header(7, pid=0), 100_000, 9000)  # the first of all is the last that wrote
    monkeypatch.setattr(module, "PRODUCERS_MAX", MANY)
    taken = calls_of(lambda: state.record(header(0, pid=MANY), 100_001, 9001))
    assert taken < 10 * MANY // 10
    left = {each.producer_id for each in state.active()}
    assert left == {0, MANY, *range(MANY // 10 + 2, MANY)}


def test_last_offsets_are_the_same_however_a_producer_is_kept() -> None:
    state = many(10)
    state.end_transaction(3, 1, EndTransaction(True, 0), 99, 9000)
    state.end_transaction(77, 4, EndTransaction(True, 0), 100, 9000)
    expected = {pid: (pid * 7 + 6, 0) for pid in range(10)} | {3: (-1, 1), 77: (-1, 4)}
    assert state.last_sequences() == expected
    again, _ = Producers.decode(state.encode())
    assert again.last_sequences() == expected
