"""Partitions as the cleaner sees them, and what a rewrite leaves in their books."""

from contextlib import aclosing

import pytest

from tailrace.broker.partition.cleanable import CleanablePartition
from tailrace.broker.partition.notes import read_notes
from tailrace.broker.partition.partition_log import PartitionLog
from tailrace.broker.partition.segment_state import decode_index
from tailrace.broker.partition.trimming import raise_log_start
from tailrace.compaction.cleaner.cleanable import CleanCheckpoint, LastSequence, SegmentCounts
from tailrace.compaction.cleaner.means import BLOCK_BYTES
from tailrace.core.errors import LogTruncated
from tailrace.protocol.ids import Buffer, TopicPartition
from tailrace.protocol.records.batch import read_header
from tests.unit.broker.fakes import World, batch, make_world
from tests.unit.broker.loops import in_loop
from tests.unit.broker.partition.transaction_support import end, write


async def compacted(*times: int) -> tuple[World, PartitionLog, CleanablePartition]:
    """Return a partition with a segment of 3 records for each time, and an empty active one."""
    world = make_world()
    world.topics.add("t", configs={"cleanup.policy": "compact"})
    log = await world.open("t")
    for time in times:
        await log.append(batch(2, timestamp=time))
        await log.append(batch(1, timestamp=time - 1))
        await log.roll()
    return world, log, CleanablePartition(log)


async def batches_of(cleanable: CleanablePartition, lssn: int) -> list[Buffer]:
    blocks = cleanable.read(lssn, lambda: BLOCK_BYTES)
    return [each async for block in blocks for each in block.batches]


async def reopened(world: World) -> PartitionLog:
    await world.broker.partitions.close_partition(TopicPartition("t", 0))
    return await world.open("t")


@in_loop
async def test_segments_cover_the_log_without_holes() -> None:
    _, log, cleanable = await compacted(5, 3)
    await log.append(batch(2, timestamp=9))
    segments = await cleanable.segments()
    assert [(s.base_offset, s.next_offset, s.in_progress) for s in segments] == [
        (0, 3, False), (3, 6, False), (6, 8, True),
    ]  # fmt: skip
    assert [s.first_timestamp for s in segments] == [5, 3, 9]


@in_loop
async def test_a_segment_is_read_alone_with_its_places() -> None:
    world, log, cleanable = await compacted(5, 3, 4)
    log.tail.clear()
    fake = world.log("t")
    ahead, reads = fake.readers_ahead, fake.reads
    small = [block async for block in cleanable.read(2, lambda: 1)]
    blocks = [block async for block in cleanable.read(3, lambda: BLOCK_BYTES)]
    assert (len(small), len(blocks)) == (2, 1)
    assert (fake.readers_ahead, fake.reads) == (ahead, reads + 3), "nothing behind its end"
    assert [read_header(each).base_offset for b in small for each in b.batches] == [3, 5]
    assert [entry for block in small for entry in block.entries] == [0, 1]
    assert [entry for block in blocks for entry in block.entries] == [0, 1]
    assert {(block.lssn, block.ledger_id) for block in small} == {(2, 2)}
    with pytest.raises(LogTruncated):
        await batches_of(cleanable, 9)


@in_loop
async def test_what_is_in_memory_is_not_read() -> None:
    world, log, cleanable = await compacted(5, 3, 4)
    reads = world.log("t").reads
    small = [block async for block in cleanable.read(2, lambda: 1)]
    whole = [block async for block in cleanable.read(2, lambda: BLOCK_BYTES)]
    assert world.log("t").reads == reads
    assert [len(block.batches) for block in (*small, *whole)] == [1, 1, 2]
    assert {(block.lssn, block.ledger_id) for block in small} == {(2, 2)}
    cached = [each for block in small for each in block.batches]
    log.tail.clear()
    assert cached == await batches_of(cleanable, 2), "the same bytes"
    assert world.log("t").reads > reads


@in_loop
async def test_what_memory_gives_up_meanwhile_is_read_from_there_on() -> None:
    _, log, cleanable = await compacted(5, 3, 4)
    async with aclosing(cleanable.read(2, lambda: 1)) as blocks:
        first = await anext(blocks)
        log.tail.clear()
        rest = [block async for block in blocks]
    found = [read_header(each).base_offset for b in (first, *rest) for each in b.batches]
    assert found == [3, 5]


@in_loop
async def test_what_was_deleted_in_memory_is_read_as_the_log_has_it() -> None:
    world, log, cleanable = await compacted(5, 3, 4)
    await raise_log_start(log, 5)
    reads = world.log("t").reads
    await batches_of(cleanable, 2)
    assert world.log("t").reads > reads


@in_loop
async def test_a_rewritten_segment_covers_what_it_covered_and_knows_its_counts() -> None:
    world, log, cleanable = await compacted(5, 3, 4)
    await log.append(batch(1))
    first, _ = await batches_of(cleanable, 2)
    rewrite = await cleanable.rewrite([1, 2])
    await rewrite.finish(1, SegmentCounts())
    await rewrite.append(2, [first])
    await rewrite.finish(2, SegmentCounts(tombstones=0, keys=2))
    await rewrite.commit()
    segments = await cleanable.segments()
    assert [(s.base_offset, s.next_offset, s.size_bytes) for s in segments[:2]] == [
        (3, 3, 0), (3, 6, len(first)),
    ]  # fmt: skip
    index = await log.segments.index(2)
    assert (index.totals.tombstones, index.totals.keys, index.totals.records) == (0, 2, 2)
    stored = world.log("t").segments[1].index
    assert stored is not None
    assert decode_index(stored).totals == index.totals
    for each in (log, await reopened(world)):
        assert [await next_base(each, offset) for offset in (0, 4, 5, 6)] == [3, 3, 6, 6]
        assert each.log_end_offset == 10


@in_loop
async def test_what_is_rewritten_leaves_the_tail_as_it_goes() -> None:
    _, log, cleanable = await compacted(5, 3, 4)
    assert held(log, 0)
    _, second = await batches_of(cleanable, 2)
    rewrite = await cleanable.rewrite([2])
    await rewrite.append(2, [second])
    assert [held(log, offset) for offset in (0, 3, 5, 6)] == [False, False, True, True]
    await rewrite.abort()
    assert await next_base(log, 3) == 3  # read from where it lies


def held(log: PartitionLog, offset: int) -> bool:
    """Say whether the tail has the batch that begins at `offset`."""
    return log.tail.read(offset, 1, at_least_one=True) is not None


async def next_base(log: PartitionLog, offset: int) -> int:
    """Return the base offset of what a reader from `offset` gets first."""
    log.tail.clear()
    return read_header((await log.read(offset, 1))[0]).base_offset


@in_loop
async def test_an_aborted_transaction_is_known_as_long_as_its_marker() -> None:
    world, log, cleanable = await compacted()
    for _ in range(2):
        await write(log, 7, 0 if log.log_end_offset == 0 else 1)
        await end(log, 7, commit=False)
        await log.roll()
    assert [each[:3] for each in await cleanable.aborted_between(0, 3)] == [(7, 0, 1), (7, 2, 3)]
    rewrite = await cleanable.rewrite([1, 2])
    await rewrite.finish(1, SegmentCounts())
    marker = (await batches_of(cleanable, 2))[1]
    await rewrite.append(2, [marker])
    await rewrite.finish(2, SegmentCounts())
    await rewrite.commit()
    for each in (log, await reopened(world)):
        found = await each.aborted_between(0, 3)
        assert [aborted[:3] for aborted in found] == [(7, 2, 3)]


@in_loop
async def test_a_segment_that_recovery_completed_keeps_the_state_behind_it() -> None:
    world, log, _ = await compacted()
    await write(log, 7, 0, count=2)
    await end(log, 7)
    segment = world.log("t").segments[0]
    segment.in_progress = False
    assert segment.end_snapshot is None, "nobody ended it"
    log = await reopened(world)
    segment.index = segment.end_snapshot = None
    cleanable = CleanablePartition(log)
    rewrite = await cleanable.rewrite([1])
    await rewrite.finish(1, SegmentCounts())
    await rewrite.commit()
    again = await reopened(world)
    assert again.log_end_offset == 3
    assert [p.last_sequence for p in list(again.producers())] == [1]


@in_loop
async def test_last_sequences_are_those_of_the_log() -> None:
    world, log, cleanable = await compacted()
    await write(log, 7, 0, count=2)
    await end(log, 7)
    await end(log, 8, epoch=3)
    assert cleanable.last_sequences() == {7: LastSequence(1, 0), 8: LastSequence(-1, 3)}
    world.namespace.auto = False


@in_loop
async def test_what_was_cleaned_is_noted_beside_the_log_start() -> None:
    world, log, cleanable = await compacted(5, 3)
    done = CleanCheckpoint(6, 1000, 500, 200)
    await cleanable.save_checkpoint(done)
    await raise_log_start(log, 3)
    assert await cleanable.checkpoint() == done
    again = await reopened(world)
    assert again.log_start_offset == 3
    assert await CleanablePartition(again).checkpoint() == done
    notes = await read_notes(world.log("t"))  # type: ignore[arg-type]
    assert (notes.version, notes.log_start_offset) == (2, 3)


@in_loop
async def test_who_lost_the_partition_or_its_policy_may_not_clean() -> None:
    world, log, cleanable = await compacted()
    assert cleanable.may_clean
    log.use_settings(log.settings._replace(cleanup_policy=("delete",)))
    assert not cleanable.may_clean
    log.use_settings(log.settings._replace(cleanup_policy=("compact", "delete")))
    assert cleanable.may_clean
    await world.broker.partitions.close_partition(TopicPartition("t", 0))
    assert not cleanable.may_clean


@in_loop
async def test_readers_of_a_cleaned_range_get_what_the_log_has_now() -> None:
    _, log, cleanable = await compacted(5)
    await log.append(batch(1))
    rewrite = await cleanable.rewrite([1])
    await rewrite.append(1, [(await batches_of(cleanable, 1))[1]])
    await rewrite.finish(1, SegmentCounts())
    await rewrite.commit()
    found = await log.read(0, 1000)
    assert read_header(found[0]).base_offset == 2
