"""What is known of segments is of their ledgers: one that was rewritten is read anew."""

import asyncio

from tailrace.broker.partition.aborted import AbortedHolders
from tailrace.broker.partition.offsets import SegmentIndex
from tailrace.broker.partition.partition_log import PartitionLog
from tailrace.broker.partition.segment_state import SEGMENTS_KEPT, encode_index
from tailrace.core.log.resume import Place
from tailrace.protocol.distributedlog.dlsn import DLSN
from tailrace.protocol.ids import LedgerId
from tests.unit.broker.fakes import FakeLog, batch, make_world
from tests.unit.broker.loops import in_loop

NEW = LedgerId(77)


async def of_segments(count: int) -> tuple[PartitionLog, FakeLog]:
    """Return a partition of so many completed segments of ten batches with two records each."""
    world = make_world()
    world.topics.add("t")
    log = await world.open("t")
    for _ in range(count):
        for _ in range(10):
            await log.append(batch(2))
        await log.roll()
    log.tail.clear()
    return log, world.log("t")


def rewrite(stream: FakeLog, lssn: int) -> None:
    """Have another process write a segment anew: only its last batch is left, in entry 0."""
    segment = stream.segments.find(lssn)
    assert segment is not None
    index = SegmentIndex(20 * lssn - 20)
    index.add(20 * lssn - 2, 20 * lssn - 1, 0, 100, -1, 2)
    segment.ledger_id, segment.index = NEW, encode_index(index)
    stream.rewrites += 1


@in_loop
async def test_places_are_of_the_ledger_that_the_segment_has() -> None:
    log, stream = await of_segments(3)
    old = log.segments.position(25)
    assert old is not None
    assert (old.dlsn.lssn, old.ledger_id) == (2, LedgerId(2))
    rewrite(stream, 2)
    assert log.segments.position(25) is None, "what was known is of the old ledger"
    await log.segments.index(2)
    assert log.segments.position(39) == Place(DLSN(2, 0, 0), NEW)
    assert log.segments.position(45) is not None, "others are known as before"


@in_loop
async def test_totals_follow_a_segment_into_its_new_ledger() -> None:
    log, stream = await of_segments(3)
    assert [each.batches async for _, each in log.segments.totals()][:3] == [10, 10, 10]
    for lssn in (1, 2):
        rewrite(stream, lssn)
    assert [each.batches async for _, each in log.segments.totals()][:3] == [1, 1, 10]


@in_loop
async def test_aborted_transactions_are_not_looked_up_beside_a_hole() -> None:
    log, stream = await of_segments(3)
    assert log.aborted_in_memory(0, 59) == []
    log.state.aborted = AbortedHolders()
    log.state.aborted.add(2)
    rewrite(stream, 2)
    assert log.aborted_in_memory(0, 59) is None, "segment 2 has to be read"
    assert log.aborted_in_memory(40, 59) == []
    assert await log.aborted_between(0, 59) == []


@in_loop
async def test_an_open_reader_is_not_kept_over_a_rewrite() -> None:
    log, stream = await of_segments(2)
    found = await log.read_log(0, len(batch(2)), at_least_one=True)
    assert len(found.parts) == 1
    await log.read_log(2, len(batch(2)), at_least_one=True)
    assert (stream.readers_opened, stream.readers_closed) == (2, 1)
    stream.rewrites += 1
    await log.read_log(4, len(batch(2)), at_least_one=True)
    assert stream.readers_opened == 3, "the one that stayed is of no use"
    assert stream.readers_opened == stream.readers_closed


@in_loop
async def test_what_a_segment_held_while_it_was_begun_is_not_what_it_holds() -> None:
    """It is listed before the writer goes on in it, and before this owner's state knows of it."""
    log, stream = await of_segments(1)
    await log.append(batch(2))
    stream.switching = asyncio.Event()
    rolling = asyncio.create_task(log.roll())
    await asyncio.sleep(0)
    assert [lssn async for lssn, _ in log.segments.totals()] == [1, 2], "3 is listed, and empty"
    await log.append(batch(2))
    begun = [each async for _, each in log.segments.all_totals()][-1]
    assert (begun.batches, begun.first_offset, begun.next_offset) == (0, 24, 24)
    stream.switching.set()
    await rolling
    for _ in range(SEGMENTS_KEPT + 1):
        for _ in range(10):
            await log.append(batch(2))
        await log.roll()
    found = {lssn: each.batches async for lssn, each in log.segments.totals()}
    assert found[3] == 10
    assert (await log.segments.index(3)).totals.batches == 10


@in_loop
async def test_what_is_read_of_a_segment_that_grows_is_not_kept() -> None:
    log, _ = await of_segments(1)
    await log.append(batch(2))
    growing = log.state.indexes.pop(2)
    assert (await log.segments.index(2)).totals.batches == 1
    log.state.indexes[2] = growing
    await log.append(batch(2))
    del log.state.indexes[2]
    assert (await log.segments.index(2)).totals.batches == 2
