"""Sizes of partitions, open or not, and the room of the bookies."""

import pytest

from tailrace.core.errors import BookieUnavailable
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.ids import TopicPartition
from tailrace.protocol.kafka.apis import DESCRIBE_LOG_DIRS
from tailrace.protocol.kafka.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResult,
)
from tests.unit.broker.fakes import World, batch, make_world
from tests.unit.broker.handlers.ask import ask
from tests.unit.broker.loops import in_loop

Topics = list[DescribableLogDirTopic] | None


async def described(world: World, topics: Topics, version: int = 4) -> DescribeLogDirsResult:
    answer = await ask(world, DESCRIBE_LOG_DIRS, version, DescribeLogDirsRequest(topics=topics))
    assert answer.error_code == ErrorCode.NONE
    (result,) = answer.results
    assert result.log_dir == "/data"
    assert all(
        p.offset_lag == 0 and not p.is_future_key for t in result.topics for p in t.partitions
    )
    return result


def sizes(result: DescribeLogDirsResult) -> dict[str, dict[int, int]]:
    return {
        topic.name: {each.partition_index: each.partition_size for each in topic.partitions}
        for topic in result.topics
    }


@pytest.mark.parametrize("version", list(DESCRIBE_LOG_DIRS.versions))
@in_loop
async def test_sizes_are_the_same_open_or_not(version: int) -> None:
    world = make_world(bookies=3)
    world.topics.add("t", 3)
    world.topics.add("other", 1)
    size = len(batch(1))
    for partition, batches in ((0, 3), (1, 1)):
        log = await world.open("t", partition)
        for _ in range(batches):
            await log.append(batch(1))
        await log.roll()
        await log.append(batch(1))
    expected = {0: 4 * size, 1: 2 * size, 2: 0}
    result = await described(world, None, version)
    assert sizes(result) == {"other": {0: 0}, "t": expected}
    assert (result.total_bytes, result.usable_bytes) == ((3000, 300) if version >= 4 else (-1, -1))
    for partition in (0, 1):
        await world.broker.partitions.close_partition(TopicPartition("t", partition))
    assert sizes(await described(world, None, version))["t"] == expected
    assert world.broker.partitions.all() == []


@in_loop
async def test_only_what_is_asked_for_and_there() -> None:
    world = make_world()
    world.topics.add("t", 3)
    asked = [
        DescribableLogDirTopic(topic="t", partitions=[2, 0, 2, 7, -1]),
        DescribableLogDirTopic(topic="nobody", partitions=[0]),
    ]
    assert sizes(await described(world, asked)) == {"t": {0: 0, 2: 0}}
    assert sizes(await described(world, [])) == {}


@in_loop
async def test_what_cannot_be_read_is_the_directorys_error() -> None:
    world = make_world()
    world.topics.add("t")

    class Broken:
        async def look(self, topic: str, partition: int) -> None:
            raise BookieUnavailable(f"{topic}-{partition}")

    world.broker.partitions.stored = Broken()  # type: ignore[assignment]
    result = await described(world, None)
    assert (result.error_code, result.topics) == (ErrorCode.KAFKA_STORAGE_ERROR, ())
    assert (result.total_bytes, result.usable_bytes) == (-1, -1)


@in_loop
async def test_without_bookies_the_room_is_not_known() -> None:
    world = make_world(bookies=0)
    result = await described(world, None)
    assert (result.error_code, result.total_bytes, result.usable_bytes) == (0, -1, -1)
