"""NOT_LEADER_OR_FOLLOWER with the leader beside it (KIP-951): clients go there at once."""

from typing import Any

import pytest

from tailrace.protocol.kafka.apis import FETCH, PRODUCE
from tailrace.protocol.kafka.messages.fetch import FetchPartition, FetchTopic
from tailrace.protocol.kafka.messages.produce import PartitionProduceData
from tests.cluster.raw import fetch_request, produce_request
from tests.unit.broker.fakes import World, batch
from tests.unit.broker.handlers.ask import ask
from tests.unit.broker.handlers.test_metadata_of_several import (
    COUNT,
    NOT_LEADER,
    theirs,
    world_of,
)
from tests.unit.broker.loops import in_loop


async def refused_produce(world: World, version: int, at: int, **more: Any) -> Any:
    topic = world.topics.get("t")
    assert topic is not None
    request = produce_request("t", batch(), partition=at)
    request.topic_data[0].topic_id = topic.topic_id
    request.transactional_id = more.get("transactional_id")
    return await ask(world, PRODUCE, version, request)


@pytest.mark.parametrize("version", [9, 10, 13])
@pytest.mark.parametrize("transactional_id", [None, "x"])
@in_loop
async def test_who_is_refused_a_produce_is_told_the_leader(
    version: int, transactional_id: str | None
) -> None:
    world = world_of(1, 2, epochs={at: 10 + at for at in range(COUNT)})
    at = theirs(world)[0]
    answer = await refused_produce(world, version, at, transactional_id=transactional_id)
    (refused,) = answer.responses[0].partition_responses
    leader = (refused.current_leader.leader_id, refused.current_leader.leader_epoch)
    nodes = [(each.node_id, each.host) for each in answer.node_endpoints]
    assert refused.error_code == NOT_LEADER
    is_told = version >= 10
    assert (leader, nodes) == (((2, 10 + at), [(2, "other.test")]) if is_told else ((-1, -1), []))
    others: Any = world.broker.peers
    assert others.asked == ([(2, at)] if is_told else [])


@in_loop
async def test_what_is_appended_does_not_wait_for_other_partitions_leaders() -> None:
    world = world_of(1, 2, epochs=dict.fromkeys(range(COUNT), 7))
    at = theirs(world)
    request = produce_request("t", batch(), partition=at[0])
    request.topic_data[0].partition_data = [
        PartitionProduceData(index=index, records=batch()) for index in range(COUNT)
    ]
    answer = await ask(world, PRODUCE, 10, request)
    codes = [each.error_code for each in answer.responses[0].partition_responses]
    assert codes == [NOT_LEADER if index in at else 0 for index in range(COUNT)]
    request.topic_data[0].partition_data = [
        PartitionProduceData(index=index, records=batch()) for index in at
    ]
    answer = await ask(world, PRODUCE, 10, request)
    others: Any = world.broker.peers
    assert others.asked == [(2, index) for index in at]  # once, where all are refused
    leaders = [each.current_leader for each in answer.responses[0].partition_responses]
    assert [(each.leader_id, each.leader_epoch) for each in leaders] == [(2, 7)] * len(at)
    assert [each.node_id for each in answer.node_endpoints] == [2]


@pytest.mark.parametrize("version", [12, 15, 16, 18])
@in_loop
async def test_who_is_refused_a_fetch_is_told_the_leader(version: int) -> None:
    world = world_of(1, 2, epochs={at: 10 + at for at in range(COUNT)})
    topic = world.topics.get("t")
    assert topic is not None
    at = theirs(world)[0]
    request = fetch_request("t", wait_ms=60_000)
    request.topics[0].topic_id = topic.topic_id
    request.topics[0].partitions[0].partition = at
    answer = await ask(world, FETCH, version, request)
    (refused,) = answer.responses[0].partitions
    assert refused.error_code == NOT_LEADER
    leader = (refused.current_leader.leader_id, refused.current_leader.leader_epoch)
    nodes = [(each.node_id, each.host) for each in answer.node_endpoints]
    is_told = version >= 16
    assert (leader, nodes) == (((2, 10 + at), [(2, "other.test")]) if is_told else ((-1, -1), []))


@in_loop
async def test_records_do_not_wait_for_other_partitions_leaders() -> None:
    world = world_of(1, 2, epochs=dict.fromkeys(range(COUNT), 7))
    (mine, *_), (other, *_) = sorted({*range(COUNT)} - {*theirs(world)}), theirs(world)
    await (await world.open("t", mine)).append(batch(1))
    topic = world.topics.get("t")
    assert topic is not None
    request = fetch_request("t")
    wanted = [
        FetchPartition(partition=at, fetch_offset=0, partition_max_bytes=999)
        for at in (other, mine)
    ]
    request.topics = [FetchTopic(topic_id=topic.topic_id, partitions=wanted)]
    refused, found = (await ask(world, FETCH, 16, request)).responses[0].partitions
    assert (refused.error_code, refused.current_leader.leader_id) == (NOT_LEADER, -1)
    assert found.records


@pytest.mark.parametrize("epochs", [None, {}])
@in_loop
async def test_nobody_is_named_whose_epoch_is_not_known(epochs: dict[int, int] | None) -> None:
    world = world_of(1, 2, epochs=epochs)
    answer = await refused_produce(world, 10, theirs(world)[0])
    (refused,) = answer.responses[0].partition_responses
    assert (refused.error_code, refused.current_leader.leader_id) == (NOT_LEADER, -1)
    assert answer.node_endpoints == ()
