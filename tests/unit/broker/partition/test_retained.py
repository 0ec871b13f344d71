"""Retention over real partitions: age, size, and a segment in progress."""

from broker.partition.retained import retained
from compaction.worker import RetentionWorker
from protocol.ids import TopicPartition
from tests.unit.broker.fakes import World, batch, make_world
from tests.unit.broker.loops import in_loop


def worker_over(world: World) -> RetentionWorker:
    topics = world.broker.topics
    config = world.broker.config.partitions
    return RetentionWorker(
        lambda: retained(world.broker.partitions, topics, config), world.clock, 1000
    )


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
