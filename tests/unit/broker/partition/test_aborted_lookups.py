"""Who asks for aborted transactions reads only segments that hold some, and those once."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.broker.partition.aborted import HOLDERS_KEPT, AbortedHolders
from tailrace.broker.partition.appends import AppendResult
from tailrace.broker.partition.partition_log import PartitionLog
from tailrace.broker.partition.segment_state import PartitionState
from tailrace.core.errors import LedgerFenced
from tailrace.protocol.errors import DecodeError
from tailrace.protocol.ids import TopicPartition
from tests.unit.broker.fakes import FakeLog, World, batch, make_world
from tests.unit.broker.loops import in_loop
from tests.unit.broker.partition.transaction_support import end, write

SEGMENTS = 40
PARTITION = TopicPartition("t", 0)


async def killed(world: World, log: PartitionLog) -> PartitionLog:
    """Return the partition after its broker died, with a further segment begun."""
    writer = world.log("t").writer
    assert writer is not None
    writer.fail(LedgerFenced("kill -9"))
    again = await world.open("t")
    assert again is not log
    return again


async def of_crashes(*aborting: int) -> tuple[World, PartitionLog]:
    """Return a partition of segments that all ended by a crash; some hold aborted transactions."""
    world = make_world()
    world.topics.add("t")
    log = await world.open("t")
    for number in range(SEGMENTS):
        await log.append(batch(1))
        if number in aborting:
            assert isinstance(await write(log, 7, aborting.index(number)), AppendResult)
            await end(log, 7, commit=False)
        log = await killed(world, log)
    assert [segment.index for segment in world.log("t").segments] == [None] * SEGMENTS
    return world, log


def forget_holders(stream: FakeLog) -> None:
    """Have all snapshots be as older versions wrote them."""
    for segment in stream.segments:
        if segment.snapshot:
            state = PartitionState(0)
            state.restore(segment.snapshot)
            said = state.aborted.encode()
            assert segment.snapshot.endswith(said)
            segment.snapshot = b"\2" + segment.snapshot[1 : -len(said)]


@in_loop
async def test_without_transactions_nothing_is_read_however_segments_ended() -> None:
    world, log = await of_crashes()
    assert log.aborted_in_memory(0, SEGMENTS - 1) == []
    assert await log.aborted_between(0, SEGMENTS - 1) == []
    assert world.log("t").scanned == []


@in_loop
async def test_only_segments_with_aborted_transactions_are_read_and_those_once() -> None:
    world, log = await of_crashes(3, 20)
    aborted = [(7, 4, 5, 6), (7, 23, 24, 25)]
    last = log.high_watermark - 1
    for _ in range(3):
        assert await log.aborted_between(0, last) == aborted
        assert await log.aborted_between(10, last) == aborted[1:]
        assert await log.aborted_between(26, last) == []
    assert world.log("t").scanned == [4, 21]


@in_loop
async def test_what_an_older_version_wrote_is_read_once_and_to_the_end_of_a_segment_only() -> None:
    world, log = await of_crashes(3)
    stream = world.log("t")
    forget_holders(stream)
    await world.broker.partitions.close_partition(PARTITION)
    log = await world.open("t")
    last, reads = log.high_watermark - 1, stream.reads
    for _ in range(2):
        assert await log.aborted_between(0, last) == [(7, 4, 5, 6)]
    assert len(stream.scanned) == len(set(stream.scanned)) >= SEGMENTS - 1
    assert stream.reads - reads == len(stream.scanned), "each once"
    log = await killed(world, log)
    await log.append(batch(1))
    begun = log.state.lssn
    assert log.state.aborted.since(begun) == [], "from its own segments on it is known"
    assert log.state.aborted.since(begun - 2) is None


@in_loop
async def test_segments_that_are_used_stay_in_memory() -> None:
    world, log = await of_crashes(*range(SEGMENTS))
    stream = world.log("t")
    for _ in range(2):
        assert len(await log.aborted_between(0, log.high_watermark - 1)) == SEGMENTS
    assert len(stream.scanned) == len(set(stream.scanned)), "small indexes are kept, all of them"


@given(
    known_from=st.integers(-1, 3),
    steps=st.lists(st.booleans(), max_size=40),
    ask=st.integers(0, 45),
)
def test_holders_against_all_that_was_said(known_from: int, steps: list[bool], ask: int) -> None:
    holders, told = AbortedHolders(known_from), []
    begun = known_from
    for lssn, holds in enumerate(steps, 5):
        holders.begin_segment(lssn)
        begun = lssn if begun == -1 else begun
        if holds:
            holders.add(lssn)
            holders.add(lssn)
            told.append(lssn)
    expected = None if begun == -1 or ask < begun else [lssn for lssn in told if lssn >= ask]
    assert holders.since(ask) == expected
    data = b"x" + holders.encode()
    again, at = AbortedHolders.decode(data, 1)
    assert (again.since(ask), at) == (expected, len(data))
    for length in range(1, len(data)):
        with pytest.raises(DecodeError):
            AbortedHolders.decode(data[:length], 1)


def test_of_very_many_holders_the_newest_are_known() -> None:
    holders = AbortedHolders()
    for lssn in range(1, 3 * HOLDERS_KEPT, 2):
        holders.begin_segment(lssn)
        holders.add(lssn)
    newest = list(range(3 * HOLDERS_KEPT - 1, 0, -2))[:HOLDERS_KEPT][::-1]
    assert holders.since(newest[0]) == newest
    assert holders.since(newest[0] - 1) == newest
    assert holders.since(newest[0] - 2) is None


@given(st.binary(max_size=80))
def test_random_bytes_decode_or_are_refused(data: bytes) -> None:
    with contextlib.suppress(DecodeError):
        AbortedHolders.decode(data, 0)
