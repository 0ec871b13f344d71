"""Transactions over segments, restarts and crashes, against an oracle that keeps every batch."""

from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.broker.partition.appends import Append, AppendResult
from tailrace.broker.partition.partition_log import PartitionLog
from tailrace.broker.partition.segment_state import PartitionState, decode_index
from tailrace.core.errors import LedgerFenced
from tailrace.protocol.distributedlog.dlsn import DLSN
from tailrace.protocol.distributedlog.record import LogRecord
from tailrace.protocol.ids import LedgerId, TopicPartition
from tests.unit.broker.fakes import World, batch, make_world
from tests.unit.broker.loops import in_loop
from tests.unit.broker.partition.transaction_support import end, write


async def opened(world: World) -> PartitionLog:
    world.topics.add("t")
    return await world.open("t")


async def reopened(world: World) -> PartitionLog:
    await world.broker.partitions.close_partition(TopicPartition("t", 0))
    return await world.open("t")


def kill(world: World) -> None:
    """Have the writer die; what was not confirmed is lost."""
    writer = world.log("t").writer
    assert writer is not None
    writer.fail(LedgerFenced("kill -9"))


@in_loop
async def test_a_transaction_is_found_from_every_segment_that_it_spans() -> None:
    world = make_world()
    log = await opened(world)
    await write(log, 7, 0)  # 0, in the first segment
    await log.roll()
    await log.append(batch(1))  # 1, in the second
    await log.roll()
    await end(log, 7, commit=False)  # 2, in the third
    await log.append(batch(1))  # 3
    await log.roll()
    await log.append(batch(1))  # 4, in the fourth
    aborted = [(7, 0, 2, 3)]
    for again in (log, await reopened(world)):
        for offset in range(3):
            assert await again.aborted_between(offset, offset) == aborted
        assert await again.aborted_between(3, 4) == []
        assert await again.aborted_between(0, 4) == aborted


@in_loop
async def test_a_range_over_segments_finds_what_began_in_the_later_one() -> None:
    world = make_world()
    log = await opened(world)
    await log.append(batch(1))
    await log.roll()
    await write(log, 7, 0)
    await end(log, 7, commit=False)
    for again in (log, await reopened(world)):
        assert await again.aborted_between(0, 1) == [(7, 1, 2, 3)]


@in_loop
async def test_a_look_up_reads_no_further_than_the_transactions_of_its_range() -> None:
    world = make_world()
    log = await opened(world)
    for number in range(6):
        await write(log, 7, number)
        await end(log, 7, commit=False)
        await log.roll()
    again = await reopened(world)
    read: list[int] = []
    stream = world.log("t")
    read_index = stream.read_index

    async def noted(lssn: int) -> bytes | None:
        read.append(lssn)
        return await read_index(lssn)

    stream.read_index = noted  # type: ignore[method-assign]
    assert len(await again.aborted_between(2, 3)) == 1
    assert read == [2]


@in_loop
async def test_a_segment_that_a_crash_ended_is_read_with_what_was_open_before_it() -> None:
    world = make_world()
    log = await opened(world)
    await write(log, 7, 0)
    await log.roll()
    await end(log, 7, commit=False)
    await write(log, 8, 0)
    kill(world)
    second = await world.open("t")
    assert await second.aborted_between(0, 1) == [(7, 0, 1, 2)]
    assert second.last_stable_offset == 2
    await second.append(batch(1))  # a segment behind it, so that it is not replayed once more
    third = await reopened(world)
    assert world.log("t").segments[1].index is None, "the case that is tested"
    assert await third.aborted_between(0, 1) == [(7, 0, 1, 2)]
    index = await third.segments.index(2)
    assert (index.aborted.all(), index.aborted.stable_end) == ([(7, 0, 1, 2)], 2)
    assert (index.totals.batches, index.totals.first_offset, index.totals.next_offset) == (2, 1, 3)


@in_loop
async def test_what_older_versions_wrote_is_read() -> None:
    world = make_world()
    log = await opened(world)
    await log.append(batch(2))
    await world.broker.partitions.close_partition(TopicPartition("t", 0))
    segment = world.log("t").segments[0]
    assert segment.index is not None
    assert segment.end_snapshot is not None
    new = segment.index  # its end: 24 bytes of counts, 12 of no aborted transactions
    segment.index = b"\2" + new[1:-36] + new[-12:]
    totals = decode_index(segment.index).totals
    assert (totals.records, totals.tombstones, totals.keys) == (2, -1, -1)
    segment.index = b"\1" + new[1:-36]
    snapshot = segment.end_snapshot[1:-12]  # its end: 12 bytes, no segment with aborted ones
    segment.end_snapshot = b"\1" + snapshot  # no producers: they look alike
    again = await world.open("t")
    assert again.high_watermark == again.last_stable_offset == 2
    assert await again.aborted_between(0, 1) == []
    assert decode_index(segment.index).aborted.stable_end == 2


class Written(NamedTuple):
    """One thing in the log, at the offset that is its place in the list."""

    producer: int
    """0: nobody's."""
    marker: bool | None
    """Whether it commits; None if it is a batch."""


class Oracle:
    """All that was confirmed, searched from the start for every answer."""

    def __init__(self) -> None:
        self.log: list[Written] = []

    def transactions(self) -> list[tuple[int, int, int | None, bool]]:
        """Return (producer, first offset, marker, committed) of all; None while one is open."""
        found: list[tuple[int, int, int | None, bool]] = []
        since: dict[int, int] = {}
        for offset, (producer, marker) in enumerate(self.log):
            if marker is None:
                if producer:
                    since.setdefault(producer, offset)
            elif producer in since:
                found.append((producer, since.pop(producer), offset, marker))
        return found + [(producer, first, None, False) for producer, first in since.items()]

    def last_stable_offset(self) -> int:
        open_ones = [first for _, first, marker, _ in self.transactions() if marker is None]
        return min([len(self.log), *open_ones])

    def aborted(self, first: int, last: int) -> list[tuple[int, int, int]]:
        return sorted(
            (producer, begin, marker)
            for producer, begin, marker, committed in self.transactions()
            if marker is not None and not committed and marker >= first and begin <= last
        )


WRITES = ["plain", "write", "write", "commit", "abort"]
UPKEEP = ["roll", "restart", "kill"]
KILLED_IN_FLIGHT = [f"{fate} {what}" for fate in ("lost", "landed") for what in sorted(set(WRITES))]
"""Killed before the confirmation of what was appended, which the bookies have or have not."""


def actions_of(names: list[str]) -> st.SearchStrategy[list[tuple[str, int]]]:
    """Return steps for one of three producers each."""
    return st.lists(st.tuples(st.sampled_from(names), st.integers(1, 3)), max_size=40)


def append_one(log: PartitionLog, what: str, pid: int) -> tuple[Append, Written]:
    """Append what an action says; return it with what the oracle knows of it."""
    if what == "plain":
        return log.append(batch(1)), Written(0, None)
    if what == "write":
        known = {each.producer_id: each.last_sequence for each in list(log.producers())}
        return write(log, pid, known.get(pid, -1) + 1), Written(pid, None)
    return end(log, pid, commit=what == "commit"), Written(pid, what == "commit")


async def act(world: World, log: PartitionLog, oracle: Oracle, action: str, pid: int) -> None:
    """Do one thing to the partition and tell the oracle what is in the log after it."""
    stream = world.log("t")
    fate, _, what = action.rpartition(" ")
    if what in WRITES:
        stream.auto = not fate
        append, written = append_one(log, what, pid)
        if not fate:
            assert isinstance(await append, AppendResult)
        if fate != "lost":
            oracle.log.append(written)
    elif action == "roll":
        await log.roll()
    if fate or action == "kill":
        stream.keep_unconfirmed = fate == "landed"
        kill(world)
        stream.auto = True


@settings(max_examples=200, deadline=None)
@given(actions_of(WRITES * 2 + UPKEEP + KILLED_IN_FLIGHT))
def test_every_answer_is_the_oracles_over_rolls_restarts_and_kills(
    steps: list[tuple[str, int]],
) -> None:
    @in_loop
    async def run() -> None:
        world, oracle = make_world(), Oracle()
        log = await opened(world)
        for action, pid in steps:
            await act(world, log, oracle, action, pid)
            if action == "restart":
                log = await reopened(world)
            elif log.failure is not None:
                log = await world.open("t")
            end_offset = len(oracle.log)
            assert log.high_watermark == end_offset
            assert log.last_stable_offset == oracle.last_stable_offset()
        stable = log.last_stable_offset
        for first in range(stable):
            for last in {first, (first + stable) // 2, stable - 1}:
                found = await log.aborted_between(first, last)
                shown = sorted((a.producer_id, a.first_offset, a.last_offset) for a in found)
                assert shown == oracle.aborted(first, last), (first, last)
        await world.broker.partitions.close()

    run()


@settings(max_examples=80, deadline=None)
@given(actions_of(WRITES), st.integers(0, 40))
def test_replay_from_any_snapshot_gives_the_state_that_was(
    steps: list[tuple[str, int]], cut: int
) -> None:
    """A crash anywhere: what was observed equals what a restart replays."""

    @in_loop
    async def run() -> None:
        world, oracle = make_world(), Oracle()
        log = await opened(world)
        snapshot = None
        for number, (action, pid) in enumerate(steps):
            await act(world, log, oracle, action, pid)
            if number == cut:
                snapshot = (len(world.log("t").all_records()), log.state.snapshot())
        start, data = snapshot or (0, b"")
        late = PartitionState(log.state.now_ms)
        late.restore(data)
        late.begin_segment(1, LedgerId(1))
        for number, each in enumerate(world.log("t").all_records()[start:]):
            late.replay(DLSN(1, number, 0), LogRecord(each.record.txid, each.record.payload))
        assert late.snapshot() == log.state.snapshot()
        assert late.producers.open == log.state.producers.open
        whole = [each for index in log.state.indexes.values() for each in index.aborted.all()]
        assert late.ended_index().aborted.all() == [a for a in whole if a.last_offset >= start]
        await world.broker.partitions.close()

    run()
