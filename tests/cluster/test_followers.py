"""Consumers of a rack read from a broker there, which does not own the partition (KIP-392)."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from confluent_kafka import Consumer, KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient

from tailrace.protocol.errors import ErrorCode as E
from tailrace.protocol.kafka.apis import FETCH
from tailrace.protocol.kafka.messages.fetch import PartitionData
from tests.cluster.racks import (
    FAR,
    FOLLOWER,
    LEADER,
    SIZE,
    Pair,
    Stream,
    bootstrap,
    consumer,
    create,
    meet,
    racked_pair,
    read,
)
from tests.cluster.raw import RawClient, fetch_request
from tests.cluster.several_brokers import CLIENT, leaders, until
from tests.cluster.three_bookies import ThreeBookies
from tests.interop.kafka.clients import Kafka
from tests.interop.kafka.tools import Tools
from tests.java.peers import JavaClient
from tests.zookeeper import ZooKeeperServer

pytestmark = [
    pytest.mark.java,
    pytest.mark.crash,
    pytest.mark.timeout(240),
    pytest.mark.xdist_group("followers"),  # they share a cluster
]


@pytest.fixture(scope="module")
def pair(zookeeper: ZooKeeperServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """The two brokers, both of which run before and after each test."""
    with (
        ThreeBookies(zookeeper, tmp_path_factory.mktemp("cluster")) as cluster,
        racked_pair(cluster) as made,
    ):
        yield made


@pytest.fixture(scope="module")
def kafka_4(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaClient]:
    """Kafka 4.3.1 in a JVM: clients, tools."""
    peer = JavaClient(tmp_path_factory.mktemp("kafka-4") / "log", "kafka", "KafkaPeer")
    yield peer
    peer.close()


def asked(
    pair: Pair,
    topic: str,
    offset: int,
    rack: str = FAR,
    *,
    wait_ms: int = 0,
    node_id: int = FOLLOWER,
) -> PartitionData:
    """Return what a broker answers to one fetch."""
    request = fetch_request(topic, offset, wait_ms=wait_ms)
    request.rack_id = rack
    with RawClient(pair[node_id].process) as client:
        answer = client.ask(FETCH, 11, request)
    return answer.responses[0].partitions[0]


def test_consumers_of_a_rack_read_from_its_broker(pair: Pair) -> None:
    """A backlog, then the tail, whose entries come from the bookies once for all of them."""
    create(pair, "near")
    stream = Stream(pair, "near")
    stream.write(300)
    follower = pair[FOLLOWER]
    before = follower.fetched
    with ExitStack() as stack:
        readers = [stack.enter_context(consumer(pair, "near", FAR)) for _ in range(5)]
        for reader in readers:
            assert read(reader, 300) == stream.expected()
        assert follower.fetched - before >= 5 * 300 * SIZE
        before, reads = follower.fetched, follower.number("ledger_reads_total")
        for _ in range(40):
            stream.write()  # an entry each, and perhaps one more that tells of it
        for reader in readers:
            assert read(reader, 40) == stream.expected(300)
        assert follower.fetched - before >= 5 * 40 * SIZE
        assert follower.number("ledger_reads_total") - reads <= 3 * 40
    assert pair[LEADER].fetched == 0
    near, far = asked(pair, "near", 0), asked(pair, "near", 0, "")
    assert (near.error_code, near.high_watermark, near.log_start_offset) == (E.NONE, 340, 0)
    assert far.error_code == E.NOT_LEADER_OR_FOLLOWER
    assert asked(pair, "near", 0, node_id=LEADER).preferred_read_replica == FOLLOWER


def test_committed_records_are_those_that_the_leader_gives(pair: Pair) -> None:
    """Segments roll, a follower joins with transactions open, another one follows all the time."""
    create(pair, "whole", **{"segment.bytes": str(1 << 20)})
    makers = [
        Stream(pair, "whole", size=100_000, **{"transactional.id": f"maker-{at}"})
        for at in range(2)
    ]
    for each in makers:
        each.producer.init_transactions(30)
    committed = {"isolation.level": "read_committed"}
    with consumer(pair, "whole", FAR, **committed) as early:
        before = pair[FOLLOWER].fetched
        for number in range(8):
            maker = makers[number % 2]
            maker.producer.begin_transaction()
            maker.write(6)
            if number % 3:
                maker.producer.commit_transaction(30)
            else:
                maker.producer.abort_transaction(30)
        makers[0].producer.begin_transaction()
        makers[0].write(3)  # open: nothing behind it is shown
        makers[1].producer.begin_transaction()
        makers[1].write(3)
        makers[1].producer.commit_transaction(30)
        ends = {"enable.partition.eof": True}
        with consumer(pair, "whole", **committed, **ends) as plain:
            expected = until_end(plain)
        assert len(expected) == 5 * 6
        assert read(early, len(expected)) == expected
        until(lambda: len(stable(pair, "whole")) == 1)  # so nothing behind it is shown there
        assert pair[FOLLOWER].fetched > before
        pair[FOLLOWER].process.kill()
        pair[FOLLOWER].process.restart()
        meet(pair)
        with consumer(pair, "whole", FAR, **committed) as late:
            until(lambda: asked(pair, "whole", 0).error_code == E.NONE)
            before = pair[FOLLOWER].fetched
            assert read(late, len(expected)) == expected
            assert len(stable(pair, "whole")) == 1
            assert pair[FOLLOWER].fetched > before
            makers[0].producer.commit_transaction(30)
            assert len(read(late, 6)) == 6
        until(lambda: stable(pair, "whole") == {8 * 7 + 2 * 4})


def stable(pair: Pair, topic: str) -> set[int]:
    """Return the last stable offsets that both tell."""
    return {asked(pair, topic, 0, node_id=each).last_stable_offset for each in pair}


def until_end(reader: Consumer) -> list[tuple[int, bytes]]:
    """Return what a reader gets up to the end that it is told."""
    found: list[tuple[int, bytes]] = []
    while True:
        (message,) = reader.consume(1, timeout=60)
        if message.error():
            assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
            return found
        found.append((message.offset(), message.value()))


def test_deleted_records_and_topics_are_gone_there_too(pair: Pair) -> None:
    create(pair, "cut")
    stream = Stream(pair, "cut")
    stream.write(20)
    admin = AdminClient({"bootstrap.servers": bootstrap(pair), **CLIENT})
    until(lambda: asked(pair, "cut", 0).high_watermark == 20)
    admin.delete_records([TopicPartition("cut", 0, 15)])[TopicPartition("cut", 0, 15)].result(30)
    until(lambda: asked(pair, "cut", 15).log_start_offset == 15)
    assert asked(pair, "cut", 14).error_code == E.OFFSET_OUT_OF_RANGE
    assert asked(pair, "cut", 15).error_code == E.NONE
    until(lambda: asked(pair, "cut", 21).error_code == E.OFFSET_OUT_OF_RANGE)  # the leader says so
    admin.delete_topics(["cut"])["cut"].result(30)
    until(lambda: asked(pair, "cut", 0).error_code == E.UNKNOWN_TOPIC_OR_PARTITION)
    create(pair, "cut")
    stream = Stream(pair, "cut")
    stream.write(5)
    with consumer(pair, "cut", FAR) as reader:
        assert read(reader, 5) == stream.expected()


def test_a_follower_dies_and_its_consumers_go_on(pair: Pair) -> None:
    create(pair, "widow")
    stream = Stream(pair, "widow")
    stream.write(50)
    with consumer(pair, "widow", FAR) as reader:
        before = pair[FOLLOWER].fetched
        assert read(reader, 50) == stream.expected()
        assert pair[FOLLOWER].fetched > before
        pair[FOLLOWER].process.kill()
        stream.write(50)
        assert read(reader, 50) == stream.expected(50)
        pair[FOLLOWER].process.restart()
        meet(pair)
        stream.write(50)
        assert read(reader, 50) == stream.expected(100)


@pytest.mark.interop
def test_javas_consumer_reads_from_its_rack_and_goes_back_to_the_leader(
    kafka_4: JavaClient, pair: Pair
) -> None:
    create(pair, "java")
    stream = Stream(pair, "java")
    stream.write(100)
    config = {"client.rack": FAR, "isolation.level": "read_committed"}
    with Kafka(kafka_4, pair[LEADER].process).consumer(**config) as reader:
        reader("assign", partitions=["java-0"])
        before = pair[FOLLOWER].fetched
        values = reader.values(100)
        assert pair[FOLLOWER].fetched - before >= 100 * SIZE
        stream.write(20)
        values += reader.values(20)
        assert pair[FOLLOWER].fetched - before >= 120 * SIZE
        pair[FOLLOWER].process.kill()
        stream.write(20)
        values += reader.values(20)
        pair[FOLLOWER].process.restart()
        meet(pair)
        stream.write(20)
        values += reader.values(20)
    assert values == [value.decode() for _, value in stream.expected()]


@pytest.mark.interop
def test_kafkas_tools_show_the_broker_of_a_rack_among_the_replicas(
    kafka_4: JavaClient, pair: Pair
) -> None:
    create(pair, "shown")
    for each in pair.values():
        rows = Tools(kafka_4, each.process)("topics", "--describe", "--topic", "shown").rows
        (row,) = [dict(zip(row[::2], row[1::2], strict=False)) for row in rows if "Leader:" in row]
        assert (row["Leader:"], row["Replicas:"], row["Isr:"]) == ("1", "1,2", "1,2")
        none = Tools(kafka_4, each.process)("topics", "--describe", "--under-replicated-partitions")
        assert none.out == ""


def test_a_leader_dies_and_consumers_of_the_other_rack_go_on(pair: Pair) -> None:
    create(pair, "orphan")
    stream = Stream(pair, "orphan")
    stream.write(300)
    with consumer(pair, "orphan", FAR) as reader, consumer(pair, "orphan", FAR) as late:
        assert read(reader, 50) == stream.expected()[:50]
        assert read(late, 1) == stream.expected()[:1]
        pair[LEADER].process.kill()
        assert read(late, 299) == stream.expected(1)  # what is there
        stream.write(50)  # to the next owner
        assert leaders(pair[FOLLOWER].process, "orphan") == [FOLLOWER]
        assert read(reader, 300) == stream.expected(50)
        pair[LEADER].process.restart()
        meet(pair)
        until(lambda: leaders(pair[FOLLOWER].process, "orphan") == [LEADER])
        stream.write(50)
        assert read(reader, 50) == stream.expected(350)
        assert read(late, 100) == stream.expected(300)
