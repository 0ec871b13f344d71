"""Fetches of consumers with a rack: sent away by the leader, answered by a follower (KIP-392)."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tailrace.broker.cluster.live_brokers import LiveBroker, LiveBrokers
from tailrace.broker.config import RACK_AWARE_SELECTOR, BrokerConfig
from tailrace.broker.following.directions import KEPT_S
from tailrace.broker.listeners import Endpoint
from tailrace.protocol.errors import ErrorCode as E
from tailrace.protocol.kafka.apis import (
    DESCRIBE_TOPIC_PARTITIONS,
    FETCH,
    METADATA,
    OFFSET_FOR_LEADER_EPOCH,
)
from tailrace.protocol.kafka.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from tailrace.protocol.kafka.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    PartitionData,
    ReplicaState,
)
from tailrace.protocol.kafka.messages.metadata import MetadataRequest, MetadataRequestTopic
from tailrace.protocol.kafka.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tests.unit.broker.fakes import World, batch, make_world
from tests.unit.broker.following.world import OWNER, Pair, reached, run_pair
from tests.unit.broker.handlers.ask import ask
from tests.unit.broker.loops import in_loop, until
from tests.unit.broker.partition.transaction_support import end, write

RACKS = {1: "a", 2: "b", 3: "b", 4: None}
AT = {"PLAINTEXT": Endpoint("broker.test", 9092)}


def request(offset: int = 0, rack: str = "b", *, epoch: int = -1, **more: Any) -> FetchRequest:
    wanted = FetchPartition(
        partition=0, fetch_offset=offset, partition_max_bytes=1 << 20, current_leader_epoch=epoch
    )
    topic = FetchTopic(topic="t", topic_id=bytes(15) + b"\1", partitions=[wanted])
    fields = {"max_wait_ms": 0, "min_bytes": 1, "max_bytes": 1 << 20, "topics": [topic], **more}
    return FetchRequest(rack_id=rack, **fields)


async def fetched(world: World, asked: FetchRequest, version: int = 12) -> PartitionData:
    answer = await ask(world, FETCH, version, asked)
    assert answer.error_code == E.NONE
    return answer.responses[0].partitions[0]


async def leading(*live: int, selector: Any = RACK_AWARE_SELECTOR) -> World:
    """Return a broker of rack a that owns a topic of two records."""
    world = make_world(config=BrokerConfig(rack="a", replica_selector=selector))
    world.topics.add("t")
    world.topics.assign("t", {0: (1,)})
    let_live(world, *live)
    await (await world.open("t")).append(batch(2))
    return world


def let_live(world: World, *live: int, at: dict[str, Endpoint] = AT) -> None:
    world.broker.routes.use(
        LiveBrokers(LiveBroker(each, at, AT["PLAINTEXT"], RACKS[each]) for each in live)
    )


# -- the leader -----------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [11, 13, 18])
@in_loop
async def test_a_leader_sends_consumers_to_a_broker_of_their_rack(version: int) -> None:
    world = await leading(1, 2)
    data = await fetched(world, request(max_wait_ms=60_000, min_bytes=1 << 20), version)
    assert (data.preferred_read_replica, data.error_code, bytes(data.records)) == (2, 0, b"")
    assert (data.high_watermark, data.log_start_offset, data.last_stable_offset) == (2, 0, 2)


@pytest.mark.parametrize(
    ("live", "asked", "version"),
    [
        ((1, 2), request(), 10),  # it cannot say where it is
        ((1, 2), request(rack=""), 12),
        ((1, 2), request(rack="a"), 12),  # the leader's
        ((1, 2), request(rack="nowhere"), 12),
        ((1, 4), request(), 12),  # nobody alive is there
        ((1, 2), request(replica_id=5), 12),  # a broker
        ((1, 2), request(replica_state=ReplicaState(replica_id=5)), 15),
    ],
)
@in_loop
async def test_it_serves_all_others(
    live: tuple[int, ...], asked: FetchRequest, version: int
) -> None:
    data = await fetched(await leading(*live), asked, version)
    assert (data.preferred_read_replica, bool(data.records)) == (-1, True)


@in_loop
async def test_without_the_setting_nothing_changes() -> None:
    world = await leading(1, 2, selector=BrokerConfig().replica_selector)
    data = await fetched(world, request())
    assert (data.preferred_read_replica, bool(data.records)) == (-1, True)
    assert await replicas(world) == [((1,), (1,))] * 2


@in_loop
async def test_no_consumer_is_sent_that_the_leader_has_to_refuse_or_cannot_show_the_way() -> None:
    world = await leading(1, 2)
    epoch = (await world.open("t")).leader_epoch
    refused = [request(3), request(-1), request(epoch=epoch + 1), request(epoch=epoch - 1)]
    codes = [(await fetched(world, each)).error_code for each in refused]
    assert codes == [E.OFFSET_OUT_OF_RANGE] * 2 + [E.UNKNOWN_LEADER_EPOCH, E.FENCED_LEADER_EPOCH]
    assert {(await fetched(world, each)).preferred_read_replica for each in refused} == {-1}
    let_live(world, 1, 2, at={"OTHER": AT["PLAINTEXT"]})
    assert (await fetched(world, request())).preferred_read_replica == -1


@in_loop
async def test_who_comes_back_gets_records_for_a_while() -> None:
    world = await leading(1, 2)
    told = [await fetched(world, request()) for _ in range(3)]
    assert [each.preferred_read_replica for each in told] == [2, -1, -1]
    assert [bool(each.records) for each in told] == [False, True, True]
    world.clock.advance_ms(int(KEPT_S * 1000))
    assert (await fetched(world, request())).preferred_read_replica == 2
    metrics = world.broker.followed.metrics
    assert (metrics.sent_total, metrics.kept_total) == (2, 2)


@in_loop
async def test_a_session_tells_that_another_broker_is_preferred() -> None:
    world = await leading(1, 2)
    await fetched(world, request())  # sent
    begun = await ask(world, FETCH, 12, request(2, session_epoch=0))  # came back: is served
    assert begun.responses[0].partitions[0].preferred_read_replica == -1
    world.clock.advance_ms(int(KEPT_S * 1000))
    again = request(1, session_id=begun.session_id, session_epoch=1)
    assert (await fetched(world, again)).preferred_read_replica == 2


async def replicas(world: World) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Return replicas and those in step, as Metadata and DescribeTopicPartitions show them."""
    request = MetadataRequest(topics=[MetadataRequestTopic(name="t")])
    (shown,) = (await ask(world, METADATA, 12, request)).topics[0].partitions
    wanted = DescribeTopicPartitionsRequest(topics=[TopicRequest(name="t")])
    (described,) = (await ask(world, DESCRIBE_TOPIC_PARTITIONS, 0, wanted)).topics[0].partitions
    return [(tuple(each.replica_nodes), tuple(each.isr_nodes)) for each in (shown, described)]


@in_loop
async def test_who_is_preferred_is_shown_as_a_replica() -> None:
    world = await leading(1, 2, 3, 4)
    sent_to = (await fetched(world, request())).preferred_read_replica
    assert sent_to in (2, 3)
    assert await replicas(world) == [((1, sent_to), (1, sent_to))] * 2
    let_live(world, 1, 4)
    assert await replicas(world) == [((1,), (1,))] * 2


# -- the follower ---------------------------------------------------------------------------------


def test_a_follower_answers_as_the_leader_does(tmp_path: Path) -> None:
    async def story(pair: Pair) -> None:
        log = await pair.own()
        await log.append(batch(2))
        await write(log, 7, 0)
        await end(log, 7, commit=False)
        await write(log, 8, 0)
        committed = request(rack="near", isolation_level=1, epoch=log.leader_epoch)
        await reached(await pair.follow(), log)
        data = await fetched(pair.world, committed)
        assert (data.error_code, data.preferred_read_replica) == (0, -1)
        assert (data.high_watermark, data.last_stable_offset, data.log_start_offset) == (5, 4, 0)
        (aborted,) = data.aborted_transactions or ()
        assert (aborted.producer_id, aborted.first_offset) == (7, 2)
        size = sum(len(each) for each in await log.read(0, 1 << 20))
        plain = await fetched(pair.world, request(rack="near"))
        assert len(bytes(plain.records)) == size
        assert len(bytes(data.records)) < size
        assert pair.followed.metrics.fetched_bytes_total == size + len(bytes(data.records))

    run_pair(tmp_path, story)


def test_the_first_fetch_opens_it_and_others_are_refused(tmp_path: Path) -> None:
    async def story(pair: Pair) -> None:
        log = await pair.own()
        await log.append(batch(2))
        for asked in (request(rack=""), request(rack="far"), request(rack="near", replica_id=2)):
            refused = await fetched(pair.world, asked)
            assert refused.error_code == E.NOT_LEADER_OR_FOLLOWER
        assert (await fetched(pair.world, request(rack="near"), 10)).error_code == (
            E.NOT_LEADER_OR_FOLLOWER
        )
        assert len(pair.followed) == 0
        data = await fetched(pair.world, request(rack="near"))
        assert (data.error_code, data.high_watermark) == (0, 2)
        asked = OffsetForLeaderTopic(
            topic="t", partitions=[OffsetForLeaderPartition(partition=0, leader_epoch=1)]
        )
        told = await ask(
            pair.world, OFFSET_FOR_LEADER_EPOCH, 4, OffsetForLeaderEpochRequest(topics=[asked])
        )
        assert told.topics[0].partitions[0].error_code == E.NOT_LEADER_OR_FOLLOWER

    run_pair(tmp_path, story)


def test_what_it_does_not_see_yet_is_waited_for_then_refused(tmp_path: Path) -> None:
    async def story(pair: Pair) -> None:
        log = await pair.own()
        await log.append(batch(2))
        followed = await pair.follow()
        await reached(followed, log)
        followed._leader_end = 3  # as if it had confirmed more
        ahead = await fetched(pair.world, request(3, "near"))
        assert ahead.error_code == E.OFFSET_NOT_AVAILABLE
        waiting = asyncio.create_task(fetched(pair.world, request(3, "near", max_wait_ms=60_000)))
        await until(lambda: followed.waiters.is_awaited)
        await log.append(batch(1))
        await log.append(batch(1))
        data = await waiting
        assert (data.error_code, data.high_watermark > 2, data.log_start_offset) == (0, True, 0)
        pair.clock.advance_ms(1000)
        beyond = await fetched(pair.world, request(5, "near", max_wait_ms=60_000))
        assert beyond.error_code == E.OFFSET_OUT_OF_RANGE  # the leader does not have it either
        pair.clock.advance_ms(1000)
        pair.says.log = None
        doubt = await fetched(pair.world, request(5, "near"))
        assert doubt.error_code == E.OFFSET_NOT_AVAILABLE

    run_pair(tmp_path, story)


def test_epochs_are_compared_and_the_leader_is_named(tmp_path: Path) -> None:
    async def story(pair: Pair) -> None:
        first = await pair.own()
        await first.append(batch(2))
        old = first.leader_epoch
        second = await pair.own()
        await reached(await pair.follow(), second)
        fenced = await fetched(pair.world, request(rack="near", epoch=old))
        assert fenced.error_code == E.FENCED_LEADER_EPOCH
        told = fenced.current_leader
        assert (told.leader_id, told.leader_epoch) == (OWNER, second.leader_epoch)
        new = await fetched(pair.world, request(rack="near", epoch=second.leader_epoch + 1))
        assert new.error_code == E.UNKNOWN_LEADER_EPOCH
        data = await fetched(pair.world, request(rack="near", epoch=second.leader_epoch))
        assert data.error_code == E.NONE
        parted = request(1, "near", epoch=second.leader_epoch)
        parted.topics[0].partitions[0].last_fetched_epoch = old
        assert (await fetched(pair.world, parted)).error_code == E.NONE

    run_pair(tmp_path, story)


def test_a_session_hears_of_the_tail_and_of_the_end(tmp_path: Path) -> None:
    async def story(pair: Pair) -> None:
        log = await pair.own()
        await log.append(batch(2))
        begun = await ask(pair.world, FETCH, 12, request(2, "near", session_epoch=0))
        (data,) = begun.responses[0].partitions
        assert (data.error_code, data.high_watermark) == (0, 2)
        polls = {"session_id": begun.session_id, "max_wait_ms": 60_000}

        def poll(epoch: int, **more: Any) -> "asyncio.Task[Any]":
            asked = FetchRequest(
                min_bytes=1, max_bytes=1 << 20, rack_id="near", session_epoch=epoch, **polls, **more
            )
            return asyncio.create_task(ask(pair.world, FETCH, 12, asked))

        waiting = poll(1)
        followed = pair.followed.get(("t", 0))
        assert followed is not None
        await until(lambda: followed.waiters.is_awaited)
        await log.append(batch(1))
        (data,) = (await waiting).responses[0].partitions
        assert (data.high_watermark, bool(data.records)) == (3, True)
        await pair.followed.let_go(followed.partition)
        (data,) = (await poll(2)).responses[0].partitions  # opened again
        assert (data.error_code, data.high_watermark) == (0, 3)

    run_pair(tmp_path, story)
