"""ListOffsets: the special timestamps, times, and refusals."""

import pytest

from protocol.errors import ErrorCode
from protocol.kafka.apis import LIST_OFFSETS
from protocol.kafka.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from tests.unit.broker.fakes import World, batch, make_world
from tests.unit.broker.handlers.ask import ask
from tests.unit.broker.loops import in_loop

E = ErrorCode


async def filled() -> World:
    """Return a world with records 0-9 of time 100 to 104, 0 and 1 given up."""
    world = make_world()
    world.topics.add("t", 2)
    log = await world.open("t")
    for number in range(5):
        await log.append(batch(2, timestamp=100 + number))
    log.move_start(2)
    return world


async def offsets(
    world: World, version: int, *asked: tuple[int, int], epoch: int = -1
) -> list[ListOffsetsPartitionResponse]:
    request = ListOffsetsRequest(
        replica_id=-1,
        topics=[
            ListOffsetsTopic(
                name="t",
                partitions=[
                    ListOffsetsPartition(
                        partition_index=partition, timestamp=timestamp, current_leader_epoch=epoch
                    )
                    for partition, timestamp in asked
                ],
            )
        ],
    )
    response = await ask(world, LIST_OFFSETS, version, request)
    return list(response.topics[0].partitions)


@pytest.mark.parametrize(
    ("timestamp", "expected"),
    [
        (-1, (10, -1)),
        (-2, (2, -1)),
        (-3, (8, 104)),
        (-4, (2, -1)),
        (-5, (-1, -1)),
        (0, (2, 101)),
        (103, (6, 103)),
        (105, (-1, -1)),
    ],
)
@in_loop
async def test_the_table(timestamp: int, expected: tuple[int, int]) -> None:
    answer = (await offsets(await filled(), 9, (0, timestamp)))[0]
    assert (answer.error_code, answer.offset, answer.timestamp) == (0, *expected)
    assert answer.leader_epoch == (1 if expected[0] >= 0 else -1)


@pytest.mark.parametrize(("timestamp", "since"), [(-3, 7), (-4, 8), (-5, 9), (-6, 99), (-7, 99)])
@in_loop
async def test_what_a_version_does_not_know_is_unsupported(timestamp: int, since: int) -> None:
    world = await filled()
    for version in range(1, 11):
        answer = (await offsets(world, version, (0, timestamp)))[0]
        assert (answer.error_code == E.UNSUPPORTED_VERSION) is (version < since)


@in_loop
async def test_an_empty_log() -> None:
    world = await filled()
    for timestamp, offset in [(-1, 0), (-2, 0), (-3, -1), (0, -1)]:
        assert (await offsets(world, 7, (1, timestamp)))[0].offset == offset


@in_loop
async def test_refusals_are_per_partition() -> None:
    world = await filled()
    answers = await offsets(world, 5, (0, -1), (1, -1), (1, -2), (9, -1))
    codes = [E(each.error_code) for each in answers]
    assert codes == [E.NONE, E.INVALID_REQUEST, E.INVALID_REQUEST, E.UNKNOWN_TOPIC_OR_PARTITION]
    fenced = await offsets(world, 5, (0, -1), epoch=0)
    assert fenced[0].error_code == E.FENCED_LEADER_EPOCH
    ahead = await offsets(world, 5, (0, -1), epoch=5)
    assert ahead[0].error_code == E.UNKNOWN_LEADER_EPOCH
