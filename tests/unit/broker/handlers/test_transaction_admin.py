"""DescribeProducers and WriteTxnMarkers: how a hanging transaction is found and ended."""

import asyncio

import pytest

from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.kafka.apis import DESCRIBE_PRODUCERS, WRITE_TXN_MARKERS
from tailrace.protocol.kafka.messages.describe_producers import (
    DescribeProducersRequest,
    PartitionResponse,
    TopicRequest,
)
from tailrace.protocol.kafka.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from tests.unit.broker.fakes import World, make_world
from tests.unit.broker.handlers.ask import ask
from tests.unit.broker.loops import in_loop
from tests.unit.broker.partition.transaction_support import end, write

E = ErrorCode


def prepared() -> World:
    world = make_world()
    world.topics.add("t", 2)
    world.topics.add("__consumer_offsets", 1)
    return world


async def described(world: World, topic: str, *indexes: int) -> list[PartitionResponse]:
    request = DescribeProducersRequest(topics=[TopicRequest(name=topic, partition_indexes=indexes)])
    response = await ask(world, DESCRIBE_PRODUCERS, 0, request)
    assert [each.name for each in response.topics] == [topic]
    return list(response.topics[0].partitions)


async def marked(
    world: World, *topics: tuple[str, int], version: int = 2, producer: int = 7, epoch: int = 0,
    coordinator: int = 0, commit: bool = False, transaction_version: int = 0,
) -> list[tuple[str, int, ErrorCode]]:  # fmt: skip
    marker = WritableTxnMarker(
        producer_id=producer,
        producer_epoch=epoch,
        transaction_result=commit,
        topics=[WritableTxnMarkerTopic(name=name, partition_indexes=[at]) for name, at in topics],
        coordinator_epoch=coordinator,
        transaction_version=transaction_version,
    )
    request = WriteTxnMarkersRequest(markers=[marker])
    response = await ask(world, WRITE_TXN_MARKERS, version, request)
    assert [each.producer_id for each in response.markers] == [producer]
    return [
        (topic.name, each.partition_index, E(each.error_code))
        for topic in response.markers[0].topics
        for each in topic.partitions
    ]


@in_loop
async def test_producers_are_told_with_their_open_transactions() -> None:
    world = prepared()
    log = await world.open("t")
    await write(log, 7, 0, epoch=3)
    await write(log, 8, 5)
    await end(log, 8, coordinator=4)
    answer, empty = await described(world, "t", 0, 1)
    assert (answer.partition_index, answer.error_code) == (0, E.NONE)
    shown = [
        (p.producer_id, p.producer_epoch, p.last_sequence, p.coordinator_epoch,
         p.current_txn_start_offset, p.last_timestamp)
        for p in answer.active_producers
    ]  # fmt: skip
    now_ms = world.clock.now_ms()
    assert shown == [(7, 3, 0, -1, 0, now_ms), (8, 0, 5, 4, -1, now_ms)]
    assert (empty.partition_index, list(empty.active_producers)) == (1, [])


@pytest.mark.parametrize(
    ("topic", "index", "code"),
    [
        ("t", 2, E.UNKNOWN_TOPIC_OR_PARTITION),
        ("t", -1, E.UNKNOWN_TOPIC_OR_PARTITION),
        ("none", 0, E.UNKNOWN_TOPIC_OR_PARTITION),
        ("a/b", 0, E.INVALID_TOPIC_EXCEPTION),
        ("", 0, E.INVALID_TOPIC_EXCEPTION),
    ],
)
@in_loop
async def test_what_cannot_be_described(topic: str, index: int, code: ErrorCode) -> None:
    assert [each.error_code for each in await described(prepared(), topic, index)] == [code]


@pytest.mark.parametrize("version", WRITE_TXN_MARKERS.versions)
@in_loop
async def test_a_hanging_transaction_is_aborted_and_its_partition_goes_on(version: int) -> None:
    world = prepared()
    log = await world.open("t")
    await write(log, 7, 0)
    found = (await described(world, "t", 0))[0].active_producers[0]
    assert found.current_txn_start_offset == 0
    answer = await marked(world, ("t", 0), ("t", 1), ("none", 0), ("t", 9), version=version)
    assert answer == [
        ("t", 0, E.NONE), ("t", 1, E.NONE), ("none", 0, E.UNKNOWN_TOPIC_OR_PARTITION),
        ("t", 9, E.UNKNOWN_TOPIC_OR_PARTITION),
    ]  # fmt: skip
    assert log.last_stable_offset == log.high_watermark == 2
    assert [each[:2] for each in await log.aborted_between(0, 1)] == [(7, 0)]


@in_loop
async def test_the_rules_for_epochs_hold_here_too() -> None:
    world = prepared()
    log = await world.open("t")
    await write(log, 7, 0, epoch=2)
    assert await marked(world, ("t", 0), epoch=1) == [("t", 0, E.INVALID_PRODUCER_EPOCH)]
    late = await marked(world, ("t", 0), epoch=2, transaction_version=2)
    assert late == [("t", 0, E.INVALID_PRODUCER_EPOCH)]
    assert await marked(world, ("t", 0), epoch=3, coordinator=5, transaction_version=2) == [
        ("t", 0, E.NONE)
    ]
    assert await marked(world, ("t", 0), epoch=3, coordinator=4) == [
        ("t", 0, E.TRANSACTION_COORDINATOR_FENCED)
    ]


@pytest.mark.parametrize(("producer", "epoch"), [(-1, 0), (7, -1), (-5, -1)])
@in_loop
async def test_markers_of_nobody_are_refused(producer: int, epoch: int) -> None:
    world = prepared()
    answer = await marked(world, ("t", 0), producer=producer, epoch=epoch)
    assert answer == [("t", 0, E.UNKNOWN_SERVER_ERROR)]
    assert (await world.open("t")).log_end_offset == 0


class Groups:
    """A group coordinator that notes what ends, and answers as it is told to."""

    def __init__(self, code: ErrorCode) -> None:
        self.code = code
        self.ended: list[tuple[object, ...]] = []

    def end_transaction(self, *what: object) -> "asyncio.Future[ErrorCode]":
        self.ended.append(what)
        future: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()
        future.set_result(self.code)
        return future


@pytest.mark.parametrize(
    ("code", "told"),
    [
        (E.NONE, E.NONE),
        (E.COORDINATOR_LOAD_IN_PROGRESS, E.NOT_LEADER_OR_FOLLOWER),
        (E.NOT_COORDINATOR, E.NOT_LEADER_OR_FOLLOWER),
        (E.INVALID_PRODUCER_EPOCH, E.INVALID_PRODUCER_EPOCH),
    ],
)
@in_loop
async def test_offsets_end_with_their_group_coordinator(code: ErrorCode, told: ErrorCode) -> None:
    world, groups = prepared(), Groups(code)
    world.broker.groups = groups  # type: ignore[assignment]
    answer = await marked(world, ("__consumer_offsets", 0), commit=True, epoch=1, coordinator=3)
    assert answer == [("__consumer_offsets", 0, told)]
    assert groups.ended == [(0, 7, 1, 3, True, 0)]
    assert await marked(world, ("__consumer_offsets", 5)) == [
        ("__consumer_offsets", 5, E.UNKNOWN_TOPIC_OR_PARTITION)
    ]
