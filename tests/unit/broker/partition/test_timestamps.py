"""Offsets by time, against a scan of all records."""

import pytest

from tailrace.broker.partition.partition_log import PartitionLog
from tailrace.broker.partition.timestamps import first_at, newest
from tailrace.core.errors import CorruptData
from tailrace.protocol.ids import TopicPartition
from tailrace.protocol.records.record import Record, build_batch
from tests.unit.broker.fakes import World, make_world
from tests.unit.broker.heavy import walked
from tests.unit.broker.loops import in_loop

TIMES = [[5, 9, 7], [3, 3], [20, 1], [11], [20, 20, 30], [8]]
"""Timestamps of the records of each batch; a segment holds two batches."""


async def filled(
    codec: int = 0, configs: dict[str, str] | None = None
) -> tuple[World, PartitionLog]:
    world = make_world()
    world.topics.add("t", configs=configs)
    log = await world.open("t")
    for number, times in enumerate(TIMES):
        if number in (2, 4):
            await log.roll()
        records = [Record(offset=i, timestamp=t, value=b"v") for i, t in enumerate(times)]
        await log.append(memoryview(build_batch(records, codec)))
    return world, log


ALL = [t for times in TIMES for t in times]


@pytest.mark.parametrize("codec", [0, 1, 4])
@pytest.mark.parametrize("restarted", [False, True])
@in_loop
async def test_the_first_record_that_is_not_older(codec: int, restarted: bool) -> None:
    world, log = await filled(codec)
    if restarted:
        await world.broker.partitions.close_partition(TopicPartition("t", 0))
        log = await world.open("t")
    for timestamp in range(33):
        expected = next((i for i, t in enumerate(ALL) if t >= timestamp), None)
        found = await first_at(log, timestamp, walked)
        assert (found.offset if found else None) == expected
        assert found is None or found.timestamp == ALL[found.offset]
    latest = await newest(log, walked)
    assert latest is not None
    assert (latest.offset, latest.timestamp) == (ALL.index(30), 30)


@in_loop
async def test_only_what_is_kept_counts() -> None:
    _, log = await filled()
    log.move_start(6)
    found = await first_at(log, 20, walked)
    assert found is not None
    assert found.offset == 8
    log.move_start(11)
    latest = await newest(log, walked)
    assert latest is not None
    assert (latest.offset, latest.timestamp) == (11, 8)


@pytest.mark.parametrize("codec", [0, 1])
@pytest.mark.parametrize("start", range(len(ALL)))
@in_loop
async def test_a_log_start_inside_a_batch_hides_only_what_lies_before_it(
    codec: int, start: int
) -> None:
    _, log = await filled(codec)
    log.move_start(start)
    kept = list(enumerate(ALL))[start:]
    for timestamp in range(33):
        expected = next((i for i, t in kept if t >= timestamp), None)
        found = await first_at(log, timestamp, walked)
        assert (found.offset if found else None) == expected
    latest = await newest(log, walked)
    assert latest is not None
    largest = max(ALL[start:])
    assert (latest.offset, latest.timestamp) == (ALL.index(largest, start), largest)


@in_loop
async def test_with_log_append_time_too_the_first_kept_record_is_found() -> None:
    world, log = await filled(configs={"message.timestamp.type": "LogAppendTime"})
    log.move_start(1)
    found = await first_at(log, world.clock.now_ms(), walked)
    assert found is not None
    assert found.offset == 1
    latest = await newest(log, walked)
    assert latest is not None
    assert latest.offset == 1


@in_loop
async def test_an_empty_log_has_no_times() -> None:
    world = make_world()
    world.topics.add("t")
    log = await world.open("t")
    assert await first_at(log, 0, walked) is None
    assert await newest(log, walked) is None


@in_loop
async def test_with_log_append_time_a_batch_has_one_time() -> None:
    world, log = await filled(configs={"message.timestamp.type": "LogAppendTime"})
    now = world.clock.now_ms()
    found = await first_at(log, now, walked)
    assert found is not None
    assert (found.offset, found.timestamp) == (0, now)
    assert await first_at(log, now + 1, walked) is None


@in_loop
async def test_a_batch_that_does_not_decode_is_corrupt() -> None:
    world = make_world()
    world.topics.add("t")
    log = await world.open("t")
    bad = build_batch([Record(timestamp=5, value=b"v")])
    bad[61] = 0xFF
    await log.append(memoryview(bad))
    with pytest.raises(CorruptData):
        await first_at(log, 1, walked)
