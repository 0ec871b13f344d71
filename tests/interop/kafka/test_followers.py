"""Kafka's Java consumer reads from the broker of its rack, and goes on when that dies (KIP-392)."""

from collections.abc import Iterator

import pytest

from tests.cluster.racks import (
    FAR,
    FOLLOWER,
    LEADER,
    SIZE,
    Pair,
    Stream,
    create,
    meet,
    racked_pair,
)
from tests.cluster.three_bookies import ThreeBookies
from tests.interop.kafka.clients import Kafka
from tests.interop.kafka.tools import Tools
from tests.java.peers import JavaClient
from tests.zookeeper import ZooKeeperServer

pytestmark = [
    pytest.mark.interop,
    pytest.mark.java,
    pytest.mark.crash,
    pytest.mark.timeout(240),
    pytest.mark.xdist_group("java followers"),  # they share a cluster
]


@pytest.fixture(scope="module")
def pair(zookeeper: ZooKeeperServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    with (
        ThreeBookies(zookeeper, tmp_path_factory.mktemp("cluster")) as cluster,
        racked_pair(cluster) as made,
    ):
        yield made


def test_it_reads_from_its_rack_and_goes_back_to_the_leader(
    kafka: JavaClient, pair: Pair, topic: str
) -> None:
    create(pair, topic)
    stream = Stream(pair, topic)
    stream.write(100)
    config = {"client.rack": FAR, "isolation.level": "read_committed"}
    with Kafka(kafka, pair[LEADER].process).consumer(**config) as consumer:
        consumer("assign", partitions=[f"{topic}-0"])
        before = pair[FOLLOWER].fetched
        values = consumer.values(100)
        assert pair[FOLLOWER].fetched - before >= 100 * SIZE
        stream.write(20)
        values += consumer.values(20)
        assert pair[FOLLOWER].fetched - before >= 120 * SIZE
        pair[FOLLOWER].process.kill()
        stream.write(20)
        values += consumer.values(20)
        pair[FOLLOWER].process.restart()
        meet(pair)
        stream.write(20)
        values += consumer.values(20)
    assert values == [value.decode() for _, value in stream.expected()]


def test_tools_show_the_broker_of_a_rack_among_the_replicas(
    kafka_4: JavaClient, pair: Pair, topic: str
) -> None:
    create(pair, topic)
    for each in pair.values():
        rows = Tools(kafka_4, each.process)("topics", "--describe", "--topic", topic).rows
        (row,) = [dict(zip(row[::2], row[1::2], strict=False)) for row in rows if "Leader:" in row]
        assert (row["Leader:"], row["Replicas:"], row["Isr:"]) == ("1", "1,2", "1,2")
        none = Tools(kafka_4, each.process)("topics", "--describe", "--under-replicated-partitions")
        assert none.out == ""
