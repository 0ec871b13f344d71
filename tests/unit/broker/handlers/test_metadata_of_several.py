"""Metadata and its like in a cluster of several brokers, as one of them answers."""

import asyncio
from functools import partial
from typing import Any

import pytest

from tailrace.broker.cluster import known_epochs
from tailrace.broker.errors import KafkaError
from tailrace.broker.handlers import metadata
from tailrace.broker.peers.errors import PeerUnavailable
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.kafka.apis import (
    DESCRIBE_CLUSTER,
    DESCRIBE_TOPIC_PARTITIONS,
    FETCH,
    LIST_OFFSETS,
    METADATA,
    OFFSET_FOR_LEADER_EPOCH,
    PRODUCE,
)
from tailrace.protocol.kafka.messages.describe_cluster import DescribeClusterRequest
from tailrace.protocol.kafka.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from tailrace.protocol.kafka.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
    ListOffsetsTopicResponse,
)
from tailrace.protocol.kafka.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponsePartition,
)
from tailrace.protocol.kafka.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tests.cluster.raw import fetch_request, produce_request
from tests.unit.broker.fakes import World, batch, make_world
from tests.unit.broker.handlers.ask import ask
from tests.unit.broker.loops import in_loop

COUNT = 6
NOT_LEADER = ErrorCode.NOT_LEADER_OR_FOLLOWER


class Others:
    """Owners elsewhere that tell an epoch for each partition; `broker.peers` of a world."""

    def __init__(self, epochs: dict[int, int] | None) -> None:
        """`epochs`: by partition; None: nobody answers."""
        self.epochs = epochs
        self.refuses_with = NOT_LEADER
        self.asked: list[tuple[int, int]] = []
        self.meanwhile: Any = partial(asyncio.sleep, 0)
        """What happens while they are being asked."""

    async def send(self, broker_id: int, _api: Any, request: Any, *_: object) -> Any:
        await self.meanwhile()
        if self.epochs is None:
            raise PeerUnavailable(f"broker {broker_id} is not alive")
        answers = []
        for topic in request.topics:
            indexes = [each.partition_index for each in topic.partitions]
            self.asked += [(broker_id, index) for index in indexes]
            answers.append(
                ListOffsetsTopicResponse(
                    name=topic.name, partitions=[self._tell(index) for index in indexes]
                )
            )
        return ListOffsetsResponse(topics=answers)

    def _tell(self, index: int) -> ListOffsetsPartitionResponse:
        assert self.epochs is not None
        code = ErrorCode.NONE if index in self.epochs else self.refuses_with
        return ListOffsetsPartitionResponse(
            partition_index=index, error_code=code, leader_epoch=self.epochs.get(index, -1)
        )


def world_of(*live: int, epochs: dict[int, int] | None = None, **more: str) -> World:
    world = make_world()
    world.topics.add("t", COUNT)
    world.let_live(*live, **more)
    others: Any = Others(epochs)
    world.broker.peers = others
    return world


def theirs(world: World) -> list[int]:
    return [at for at in range(COUNT) if not world.broker.routes.is_mine("t", at)]


async def shown(world: World, version: int = 12) -> list[MetadataResponsePartition]:
    request = MetadataRequest(topics=[MetadataRequestTopic(name="t")])
    return list((await ask(world, METADATA, version, request)).topics[0].partitions)


@in_loop
async def test_all_live_brokers_and_owners_are_shown() -> None:
    world = world_of(1, 2, 3)
    answer = await ask(world, METADATA, 12, MetadataRequest(topics=None))
    assert [(each.node_id, each.host) for each in answer.brokers] == [
        (1, "broker.test"),
        (2, "other.test"),
        (3, "other.test"),
    ]
    assert answer.controller_id == 1
    owners = [world.broker.routes.owner("t", at) for at in range(COUNT)]
    assert [each.leader_id for each in answer.topics[0].partitions] == owners
    assert sorted(filter(None, owners)) == [1, 1, 2, 2, 3, 3]
    cluster = await ask(world, DESCRIBE_CLUSTER, 2, DescribeClusterRequest())
    assert [each.broker_id for each in cluster.brokers] == [1, 2, 3]
    request = DescribeTopicPartitionsRequest(
        topics=[TopicRequest(name="t")], response_partition_limit=2000
    )
    (topic,) = (await ask(world, DESCRIBE_TOPIC_PARTITIONS, 0, request)).topics
    assert [each.leader_id for each in topic.partitions] == owners


@in_loop
async def test_the_lowest_id_is_the_controller() -> None:
    world = world_of(1, 0)
    answer = await ask(world, METADATA, 1, MetadataRequest(topics=()))
    assert answer.controller_id == 0


@in_loop
async def test_a_broker_that_the_client_cannot_reach_is_left_out() -> None:
    world = world_of(1, 2, listener="INSIDE")
    answer = await ask(world, METADATA, 12, MetadataRequest(topics=None))
    assert [each.node_id for each in answer.brokers] == [1]
    assert [
        (each.error_code, each.leader_id)
        for each in answer.topics[0].partitions
        if each.partition_index in theirs(world)
    ] == [(ErrorCode.LEADER_NOT_AVAILABLE, -1)] * (COUNT // 2)


@in_loop
async def test_epochs_are_those_that_owners_tell() -> None:
    epochs = {at: 10 + at for at in range(COUNT)}
    world = world_of(1, 2, epochs=epochs)
    partitions = await shown(world)
    for each in partitions:
        at = each.partition_index
        assert each.error_code == 0
        expected = epochs[at]
        if at not in theirs(world):
            log = world.broker.partitions.get(("t", at))
            assert log is not None
            expected = log.leader_epoch
        assert each.leader_epoch == expected
    others: Any = world.broker.peers
    assert sorted(others.asked) == [(2, at) for at in theirs(world)]


async def shown_with_all(world: World) -> list[MetadataResponsePartition]:
    response = await ask(world, METADATA, 12, MetadataRequest(topics=None))
    return list(response.topics[0].partitions)


@in_loop
async def test_epochs_are_told_with_all_topics_as_well() -> None:
    world = world_of(1, 2, epochs={at: 10 + at for at in range(COUNT)})
    assert await shown_with_all(world) == await shown(world)
    assert all(each.leader_epoch >= 0 for each in await shown_with_all(world))


@in_loop
async def test_of_very_many_some_are_opened_and_asked_about_by_each_request(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(metadata, "OPENED_MAX", 2)
    epochs = {at: 10 + at for at in range(COUNT)}
    world = world_of(1, 2, epochs=epochs)
    others: Any = world.broker.peers
    unknown = []
    for _ in range(COUNT):
        others.asked.clear()
        partitions = await shown_with_all(world)
        assert [each.error_code for each in partitions] == [0] * COUNT
        assert len(others.asked) == min(2, len(theirs(world)))
        unknown.append(sum(each.leader_epoch < 0 for each in partitions))
    mine = COUNT - len(theirs(world))
    expected = [
        max(len(theirs(world)) - 2 * n, 0) + max(mine - 2 * n, 0) for n in range(1, COUNT + 1)
    ]
    assert unknown == expected
    assert unknown[-1] == 0
    epochs.update({at: 20 + at for at in range(COUNT)})
    for _ in range(COUNT):
        partitions = await shown_with_all(world)
    assert {partitions[at].leader_epoch for at in theirs(world)} == {20 + a for a in theirs(world)}


@in_loop
async def test_no_epoch_is_told_of_a_former_owner_or_a_former_topic(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(metadata, "OPENED_MAX", 0)
    world = world_of(1, 2, epochs={at: 10 + at for at in range(COUNT)})
    topic = world.topics.get("t")
    assert topic is not None
    at = theirs(world)[0]

    async def told() -> int:
        return (await shown_with_all(world))[at].leader_epoch

    assert await told() == -1
    world.broker.epochs.note(topic.topic_id, at, 2, 7)
    assert await told() == 7
    world.let_live(1, 2, 3)
    world.let_live(1, 2)
    assert await told() == -1
    world.broker.epochs.note(topic.topic_id, at, 3, 8)
    assert await told() == -1
    world.broker.epochs.note(topic.topic_id, at, 2, 9)
    world.topics.replace("t")
    assert await told() == -1


def test_what_is_known_of_epochs_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_epochs, "EPOCHS_MAX", 3)
    epochs = known_epochs.KnownEpochs()
    for partition in (0, 1, 2, 0, 3):
        epochs.note(b"t", partition, 2, 10 + partition)
    assert len(epochs) == 3
    assert [epochs.of(b"t", partition, 2) for partition in range(4)] == [10, -1, 12, 13]
    assert [epochs.next_to_ask(5, 2) for _ in range(4)] == [0, 2, 4, 1]


@in_loop
async def test_whoever_says_that_it_does_not_lead_is_not_named() -> None:
    """Without an epoch clients would believe it, whatever newer they know."""
    world = world_of(1, 2, epochs={})
    others: Any = world.broker.peers
    for code in (NOT_LEADER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.KAFKA_STORAGE_ERROR):
        others.refuses_with = code
        for each in await shown(world):
            expected = (ErrorCode.LEADER_NOT_AVAILABLE, -1)
            if each.partition_index not in theirs(world):
                expected = (ErrorCode.NONE, 1)
            elif code is ErrorCode.KAFKA_STORAGE_ERROR:  # which it tells clients itself
                expected = (ErrorCode.NONE, 2)
            assert (each.error_code, each.leader_id) == expected


@pytest.mark.parametrize("told", [{}, {0: 10}, None])
@in_loop
async def test_who_leads_is_said_as_it_is_when_the_answer_goes(told: dict[int, int] | None) -> None:
    """A partition that moves while its owner is asked is not shown where it was."""
    world = world_of(1, 2, epochs=told)
    world.topics.assign("t", {0: (2,)})

    async def move() -> None:
        world.topics.assign("t", {0: (1,)})

    others: Any = world.broker.peers
    others.meanwhile = move
    (moving, *_) = await shown(world)
    assert (moving.error_code, moving.leader_id) == (ErrorCode.LEADER_NOT_AVAILABLE, -1)
    (moved, *_) = await shown(world)
    log = world.broker.partitions.get(("t", 0))
    assert log is not None
    assert (moved.leader_id, moved.leader_epoch) == (1, log.leader_epoch)


@in_loop
async def test_a_topic_that_goes_meanwhile_is_not_there() -> None:
    world = world_of(1, 2, epochs={})
    others: Any = world.broker.peers
    others.meanwhile = partial(world.topics.delete, "t")
    request = MetadataRequest(topics=[MetadataRequestTopic(name="t")])
    (topic,) = (await ask(world, METADATA, 12, request)).topics
    assert (topic.error_code, topic.name) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "t")


@in_loop
async def test_epochs_stay_unknown_if_nobody_tells_or_the_version_has_none() -> None:
    world = world_of(1, 2)
    for each in await shown(world):
        assert (each.leader_epoch >= 0) is (each.partition_index not in theirs(world))
    world = world_of(1, 2, epochs={})
    await shown(world, 6)
    others: Any = world.broker.peers
    assert others.asked == []


@in_loop
async def test_all_partitions_of_others_are_refused() -> None:
    world = world_of(1, 2)
    for at in range(COUNT):
        expected = NOT_LEADER if at in theirs(world) else ErrorCode.NONE
        produce = produce_request("t", batch(), partition=at)
        answer = await ask(world, PRODUCE, 9, produce)
        assert answer.responses[0].partition_responses[0].error_code == expected
        wanted = ListOffsetsPartition(partition_index=at, timestamp=-1)
        topics = [ListOffsetsTopic(name="t", partitions=[wanted])]
        offsets = ListOffsetsRequest(replica_id=-1, topics=topics)
        listed = await ask(world, LIST_OFFSETS, 5, offsets)
        assert listed.topics[0].partitions[0].error_code == expected
        epoch = OffsetForLeaderPartition(partition=at, leader_epoch=1)
        ends = OffsetForLeaderEpochRequest(
            topics=[OffsetForLeaderTopic(topic="t", partitions=[epoch])]
        )
        ended = await ask(world, OFFSET_FOR_LEADER_EPOCH, 4, ends)
        assert ended.topics[0].partitions[0].error_code == expected
        fetch = fetch_request("t")
        fetch.topics[0].partitions[0].partition = at
        fetched = await ask(world, FETCH, 11, fetch)
        assert fetched.responses[0].partitions[0].error_code == expected


@pytest.mark.parametrize("gone", [2, 3])
@in_loop
async def test_a_replica_that_is_gone_is_offline(gone: int) -> None:
    world = world_of(1, 2, 3)
    world.topics.assign("t", {0: (2, 3)})
    world.let_live(*({1, 2, 3} - {gone}))
    (first, *_) = await shown(world)
    (kept,) = {2, 3} - {gone}
    assert first.leader_id == kept
    assert list(first.replica_nodes) == [2, 3]
    assert list(first.isr_nodes) == [kept]
    assert list(first.offline_replicas) == [gone]


@in_loop
async def test_a_topic_that_another_broker_is_making_is_not_there_yet(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def lost(*_: object, **__: object) -> None:
        raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, "Topic 'new' already exists.")

    world = world_of(1, 2)
    monkeypatch.setattr(world.topics, "create", lost)
    request = MetadataRequest(
        topics=[MetadataRequestTopic(name="new")], allow_auto_topic_creation=True
    )
    (topic,) = (await ask(world, METADATA, 12, request)).topics
    assert topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION  # clients ask again
