"""Retention over real partitions: age, size, and a segment in progress."""

from typing import Any

import pytest

from tailrace.broker.partition.offsets import Totals
from tailrace.broker.partition.retained import NEVER_MS, RetainedPartitions, due_at
from tailrace.broker.partition.stored import StoredPartition, StoredSegment
from tailrace.compaction.retention import Limits
from tailrace.compaction.worker import RetentionWorker
from tailrace.core.errors import CorruptData
from tailrace.protocol.ids import TopicPartition
from tests.unit.broker.fakes import World, batch, make_world
from tests.unit.broker.loops import in_loop


def worker_over(world: World) -> RetentionWorker:
    topics = world.broker.topics
    config = world.broker.config.partitions
    partitions = RetainedPartitions(world.broker.partitions, topics, lambda: config)
    return RetentionWorker(partitions.round, world.clock, 1000)


@in_loop
async def test_old_records_go_with_their_segment_even_after_a_restart() -> None:
    world = make_world()
    world.topics.add("t", 2, {"retention.ms": "1000"})
    log = await world.open("t")
    for _ in range(3):
        await log.append(batch(1, timestamp=world.clock.now_ms()))
        await log.roll()
    worker = worker_over(world)
    await worker.round()
    assert log.log_start_offset == 0
    await world.broker.partitions.close_partition(TopicPartition("t", 0))
    world.clock.advance_ms(2000)
    await worker.round()
    again = await world.open("t")
    assert (again.log_start_offset, again.log_end_offset) == (3, 3)
    assert len(world.log("t").segments) == 1
    await again.append(batch(1, timestamp=world.clock.now_ms()))
    assert again.log_end_offset == 4


@in_loop
async def test_a_lost_segment_of_a_partition_that_is_not_open_stops_nothing() -> None:
    world = make_world()
    world.topics.add("t", configs={"retention.ms": "1000"})
    log = await world.open("t")
    for _ in range(4):
        await log.append(batch(1, timestamp=world.clock.now_ms()))
        await log.roll()
    await world.broker.partitions.close_partition(TopicPartition("t", 0))
    stream = world.log("t")
    read = stream.read_index

    async def read_index(lssn: int) -> bytes | None:
        if lssn == 1:
            raise CorruptData("segment 1")
        return await read(lssn)

    stream.read_index = read_index  # type: ignore[method-assign]
    world.clock.advance_ms(2000)
    await worker_over(world).round()
    assert len(stream.segments) == 1
    assert (await world.open("t")).log_start_offset == 4


@in_loop
async def test_the_segment_in_progress_is_ended_when_all_of_it_is_old() -> None:
    world = make_world()
    world.topics.add("t", configs={"retention.ms": "1000"})
    log = await world.open("t")
    await log.append(batch(5, timestamp=world.clock.now_ms()))
    world.clock.advance_ms(5000)
    await worker_over(world).round()
    assert (log.log_start_offset, log.high_watermark) == (5, 5)
    assert not world.log("t").segments[0].in_progress


@in_loop
async def test_a_full_log_loses_its_oldest_segments() -> None:
    world = make_world()
    size = len(batch(1))
    world.topics.add("t", configs={"retention.bytes": str(2 * size), "retention.ms": "-1"})
    log = await world.open("t")
    for _ in range(5):
        await log.append(batch(1))
        await log.roll()
    await worker_over(world).round()
    assert log.log_start_offset == 3
    assert world.log("t").segments[0].records[0].record.txid == 3


@in_loop
async def test_a_partition_that_nobody_uses_stays_closed() -> None:
    world = make_world()
    world.topics.add("t", 2, {"retention.ms": "1000"})
    log = await world.open("t")
    await log.append(batch(1, timestamp=world.clock.now_ms()))
    await world.broker.partitions.close_partition(TopicPartition("t", 0))
    worker = worker_over(world)
    for _ in range(5):
        await worker.round()
        world.clock.advance_ms(200)
    assert world.broker.partitions.all() == []
    assert world.log("t").indexes_read == 1
    world.clock.advance_ms(1)
    await worker.round()
    (opened,) = world.broker.partitions.all()
    assert (opened.partition.partition, opened.log_start_offset) == (0, 1)
    assert worker.metrics.failures_total == 0


@in_loop
async def test_other_limits_are_looked_at_at_once() -> None:
    world = make_world()
    world.topics.add("t", configs={"retention.ms": "-1"})
    log = await world.open("t")
    await log.append(batch(1, timestamp=world.clock.now_ms()))
    await world.broker.partitions.close_partition(TopicPartition("t", 0))
    worker = worker_over(world)
    world.clock.advance_ms(5000)
    await worker.round()
    assert world.broker.partitions.all() == []
    world.topics.add("t", configs={"retention.ms": "1000"})
    await worker.round()
    assert [each.log_start_offset for each in world.broker.partitions.all()] == [1]


NOW_MS = 100_000
LIMITS = Limits(1_000, -1, True)


def segment(first: int, newest_ms: int, size: int = 10) -> StoredSegment:
    return StoredSegment(size, Totals(first, first + 1, 1, 1, size, newest_ms, first))


def lying(*segments: StoredSegment, **fields: Any) -> StoredPartition:
    seen: dict[str, Any] = {
        "log_start": 0, "in_progress": False, "has_owner": False, "is_being_purged": False,
    }  # fmt: skip
    return StoredPartition(segments=segments, **{**seen, **fields})


@pytest.mark.parametrize(
    ("stored", "limits", "tiered", "expected"),
    [
        (lying(), LIMITS, False, NEVER_MS),
        (lying(), LIMITS, True, NEVER_MS),
        (lying(segment(0, NOW_MS)), LIMITS, False, NOW_MS + 1_001),
        (lying(segment(0, NOW_MS - 1_000)), LIMITS, False, NOW_MS + 1),
        (lying(segment(0, NOW_MS - 1_001)), LIMITS, False, NOW_MS),
        (lying(segment(0, -1)), LIMITS, False, NOW_MS),
        (lying(segment(0, -1)), Limits(-1, -1, True), False, NEVER_MS),
        (lying(segment(0, NOW_MS), segment(1, -1)), LIMITS, False, NOW_MS + 1_001),
        (lying(segment(0, 0)), Limits(-1, -1, True), False, NEVER_MS),
        (lying(segment(0, 0)), Limits(1_000, -1, False), False, NEVER_MS),
        (lying(segment(0, 0), log_start=1), LIMITS, False, NEVER_MS),
        (lying(segment(0, 0), segment(1, NOW_MS), log_start=1), LIMITS, False, NOW_MS),
        (lying(segment(0, NOW_MS), segment(1, NOW_MS)), Limits(-1, 10, True), False, NOW_MS),
        (lying(segment(0, NOW_MS), segment(1, NOW_MS)), Limits(-1, 20, True), False, NEVER_MS),
        (lying(segment(0, NOW_MS)), LIMITS, True, NOW_MS),
        (lying(StoredSegment(5, None)), LIMITS, False, NOW_MS),
        (lying(in_progress=True), LIMITS, False, NOW_MS),
        (lying(is_being_purged=True), LIMITS, False, NOW_MS),
        (lying(segment(0, 0), has_owner=True), LIMITS, False, NEVER_MS),
    ],
)
def test_when_a_closed_partition_is_due(
    stored: StoredPartition, limits: Limits, expected: int, *, tiered: bool
) -> None:
    assert due_at(stored, limits, NOW_MS, is_tiered=tiered) == expected
