"""Several brokers on one namespace, as clients see them: one cluster, whichever is asked."""

import asyncio
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest
from aiokafka import AIOKafkaConsumer
from confluent_kafka import Consumer, KafkaException
from confluent_kafka.admin import AdminClient

from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.kafka.apis import (
    ALTER_PARTITION_REASSIGNMENTS,
    FETCH,
    FIND_COORDINATOR,
    LIST_OFFSETS,
    LIST_PARTITION_REASSIGNMENTS,
    PRODUCE,
)
from tailrace.protocol.kafka.messages import alter_partition_reassignments as alter
from tailrace.protocol.kafka.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tailrace.protocol.kafka.messages.find_coordinator import FindCoordinatorRequest
from tailrace.protocol.kafka.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from tailrace.protocol.kafka.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
)
from tests.cluster.load import PARTITIONS as LOADED
from tests.cluster.load import TOPIC as LOAD
from tests.cluster.load import Load, create_topic
from tests.cluster.raw import RawClient, batch, produce_request
from tests.cluster.several_brokers import (
    PARTITIONS,
    TOPIC,
    consume,
    create,
    group_member,
    leaders,
    produce,
    read,
    seen,
    start,
    until,
)
from tests.cluster.three_bookies import ClusterBroker, ThreeBookies
from tests.tcp_proxy import Wire, wire_to
from tests.zookeeper import ZooKeeperServer

pytestmark = [pytest.mark.java, pytest.mark.timeout(240)]


@pytest.fixture(scope="module")
def bookies(
    zookeeper: ZooKeeperServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ThreeBookies]:
    with ThreeBookies(zookeeper, tmp_path_factory.mktemp("bookies")) as made:
        yield made


@pytest.fixture
def cluster(bookies: ThreeBookies) -> Iterator[ThreeBookies]:
    with bookies.another_namespace() as made:
        yield made


def test_each_names_the_same_owners_and_clients_work_by_any(cluster: ThreeBookies) -> None:
    brokers = start(cluster, 1, 2)
    create(brokers[0])
    until(lambda: leaders(brokers[1]))
    assert leaders(brokers[0]) == leaders(brokers[1])
    assert Counter(leaders(brokers[0])) == {1: 3, 2: 3}
    for broker in brokers:
        assert {each.port for each in seen(broker).brokers.values()} == {b.port for b in brokers}
    theirs = leaders(brokers[0]).index(1)
    until(lambda: told_leaders(brokers[1], theirs) == [1])
    for number, broker in enumerate(brokers):
        produce(broker, f"{number}-")
    expected = {f"{n}-{p}".encode() for n in range(2) for p in range(PARTITIONS)}
    for number, broker in enumerate(brokers):
        assert consume(broker, f"group-{number}", 2 * PARTITIONS) == expected
        assert asyncio.run(consume_by_aiokafka(broker, 2 * PARTITIONS)) == expected


def told_leaders(broker: ClusterBroker, partition: int) -> list[int]:
    """Return whom a broker names to who produces to another's partition; nobody in time: []."""
    with RawClient(broker) as client:
        answer = client.ask(PRODUCE, 10, produce_request(TOPIC, batch(b"x"), partition=partition))
    (refused,) = answer.responses[0].partition_responses
    assert refused.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    leader, nodes = refused.current_leader, answer.node_endpoints
    assert (leader.leader_epoch >= 0) is bool(nodes)
    assert [each.port for each in nodes] == [
        seen(broker).brokers[each.node_id].port for each in nodes
    ]
    return [leader.leader_id for _ in nodes]


def test_partitions_move_under_load_and_nothing_is_lost_or_doubled(cluster: ThreeBookies) -> None:
    (first,) = start(cluster, 1)
    create_topic(first.bootstrap, replication_factor=3)
    load = Load(first.bootstrap)
    load.start()
    load.wait_for_progress(100)
    (second,) = start(cluster, 2)  # joins, and takes its share
    assert set(leaders(first, LOAD)) == {1, 2}
    load.wait_for_progress(300)
    second.kill()
    until(lambda: set(leaders(first, LOAD)) == {1})
    load.wait_for_progress(300)
    second.restart()
    until(lambda: set(leaders(first, LOAD)) == {1, 2})
    reassign(first, [2] * LOADED)
    until(lambda: leaders(second, LOAD) == [2] * LOADED and not are_moving(first))
    load.wait_for_progress(300)
    assert first.stop() == 0
    load.wait_for_progress(300)
    load.finish()
    load.check(second.bootstrap)


@contextmanager
def one_to_cut_off(cluster: ThreeBookies) -> Iterator[tuple[ClusterBroker, ClusterBroker, Wire]]:
    """Start two brokers that share a topic, the second of which asks ZooKeeper over a wire."""
    with wire_to(cluster.zookeeper.port) as wire:
        (first,) = start(cluster, 1)
        second = cluster.broker("--set", "node.id=2", zookeeper=wire.hosts).start()
        until(lambda: len(seen(first).brokers) == len(seen(second).brokers) == 2)
        create(first)
        until(lambda: len(leaders(second)) == PARTITIONS)
        yield first, second, wire


def test_one_cut_off_from_the_metadata_store_is_known_by_its_epoch(cluster: ThreeBookies) -> None:
    """It goes on with what it owns, and may not pass for the owner where it had written nothing.

    A consumer that believed it would go back to the beginning, or cut off what it had read.
    """
    with one_to_cut_off(cluster) as (owner, cut_off, wire):
        theirs = leaders(owner).index(2)
        with RawClient(cut_off) as there, RawClient(owner) as here:
            end, former = end_and_epoch(there, theirs)
            assert end == 0
            wire.cut()
            until(lambda: leaders(owner) == [1] * PARTITIONS)
            produce(owner, "later-")
            end, epoch = end_and_epoch(here, theirs)
            assert end == 1
            assert end_and_epoch(there, theirs) == (0, former), "it serves what it knows"
            assert epoch > former
            answer = there.ask(FETCH, 12, fetch_behind(theirs, end, epoch))
            (refused,) = answer.responses[0].partitions
            assert refused.error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
            assert refused.diverging_epoch.epoch == -1


@pytest.mark.parametrize("is_made_again", [False, True], ids=["deleted", "made again"])
def test_who_missed_that_a_topic_was_deleted_acknowledges_nothing_for_it(
    cluster: ThreeBookies, is_made_again: bool
) -> None:
    """Its former owner, cut off from ZooKeeper, goes on; its ledgers are fenced by the deletion."""
    with one_to_cut_off(cluster) as (owner, cut_off, wire):
        theirs = leaders(owner).index(2)
        with RawClient(cut_off) as there:
            assert send(there, theirs) == ErrorCode.NONE
            wire.cut()
            assert send(there, theirs) == ErrorCode.NONE, "it goes on as long as nobody fences it"
            until(lambda: leaders(owner) == [1] * PARTITIONS)
            admin = AdminClient({"bootstrap.servers": owner.bootstrap})
            admin.delete_topics([TOPIC])[TOPIC].result(30)
            if is_made_again:
                create(owner)
                produce(owner, "of the new one ")
            for _ in range(3):
                assert send(there, theirs) == ErrorCode.NOT_LEADER_OR_FOLLOWER


def send(client: RawClient, partition: int) -> int:
    """Produce a record to a partition; return the error code."""
    answer = client.ask(PRODUCE, 9, produce_request(TOPIC, batch(b"x"), partition=partition))
    code: int = answer.responses[0].partition_responses[0].error_code
    return code


def end_and_epoch(client: RawClient, partition: int) -> tuple[int, int]:
    """Return what a broker says of a partition's end and of its own epoch."""
    asked = ListOffsetsPartition(partition_index=partition, timestamp=-1)
    topic = ListOffsetsTopic(name=TOPIC, partitions=[asked])
    answer = client.ask(LIST_OFFSETS, 7, ListOffsetsRequest(replica_id=-1, topics=[topic]))
    (found,) = answer.topics[0].partitions
    assert found.error_code == 0
    return found.offset, found.leader_epoch


def fetch_behind(partition: int, offset: int, epoch: int) -> FetchRequest:
    """Ask as a client does that has read up to `offset` from the owner of that epoch."""
    asked = FetchPartition(
        partition=partition,
        current_leader_epoch=epoch,
        fetch_offset=offset,
        last_fetched_epoch=epoch,
        partition_max_bytes=1 << 20,
    )
    return FetchRequest(max_bytes=1 << 20, topics=[FetchTopic(topic=TOPIC, partitions=[asked])])


def test_a_group_goes_on_when_its_coordinator_is_killed(cluster: ThreeBookies) -> None:
    brokers = start(cluster, 1, 2)
    create(brokers[0])
    until(lambda: leaders(brokers[1]))
    bootstrap = ",".join(broker.bootstrap for broker in brokers)
    with group_member(bootstrap, "g") as member:
        produce(brokers[0], "before-")
        assert read(member, PARTITIONS) == [f"before-{at}".encode() for at in range(PARTITIONS)]
        member.commit(asynchronous=False)
        (killed,) = [each for each in brokers if each.port == coordinator_port(brokers[0], "g")]
        killed.kill()
        (other,) = {*brokers} - {killed}
        until(lambda: len(seen(other).brokers) == 1)
        produce(other, "after-")
        assert read(member, PARTITIONS) == [f"after-{at}".encode() for at in range(PARTITIONS)]
        assert coordinator_port(other, "g") == other.port
        until(lambda: has_committed(member))
    with group_member(other.bootstrap, "g") as member:
        produce(other, "later-")
        assert read(member, PARTITIONS) == [f"later-{at}".encode() for at in range(PARTITIONS)]


def has_committed(member: Consumer) -> bool:
    """Commit what a member has read; a new coordinator may have to load the group first."""
    try:
        member.commit(asynchronous=False)
    except KafkaException:
        return False
    return True


def coordinator_port(broker: ClusterBroker, group: str) -> int:
    with RawClient(broker) as client:
        found = client.ask(FIND_COORDINATOR, 2, FindCoordinatorRequest(key=group))
    assert found.error_code == 0
    port: int = found.port
    return port


async def consume_by_aiokafka(broker: ClusterBroker, count: int) -> set[bytes]:
    """Return the first records that a group of one aiokafka consumer reads."""
    consumer = AIOKafkaConsumer(
        TOPIC,
        bootstrap_servers=broker.bootstrap,
        group_id=f"aiokafka-{broker.port}",
        auto_offset_reset="earliest",
    )
    found: list[bytes] = []
    async with consumer, asyncio.timeout(60):
        while len(found) < count:
            found.append((await consumer.getone()).value)
    assert len(set(found)) == count
    return set(found)


def reassign(broker: ClusterBroker, owners: Sequence[int]) -> None:
    """Give each partition of the load to one broker."""
    partitions = [
        alter.ReassignablePartition(partition_index=index, replicas=[owner])
        for index, owner in enumerate(owners)
    ]
    request = alter.AlterPartitionReassignmentsRequest(
        topics=[alter.ReassignableTopic(name=LOAD, partitions=partitions)]
    )
    with RawClient(broker) as client:
        (topic,) = client.ask(ALTER_PARTITION_REASSIGNMENTS, 0, request).responses
    assert [each.error_message for each in topic.partitions] == [None] * len(owners)


def are_moving(broker: ClusterBroker) -> bool:
    """Whether any partition is on its way."""
    with RawClient(broker) as client:
        request = ListPartitionReassignmentsRequest(topics=None)
        return bool(client.ask(LIST_PARTITION_REASSIGNMENTS, 0, request).topics)
