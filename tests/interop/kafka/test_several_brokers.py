"""Kafka's own tools and Java clients on a cluster of two brokers."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from tests.cluster.several_brokers import start, until
from tests.cluster.three_bookies import ClusterBroker, ThreeBookies
from tests.interop.kafka.clients import Kafka
from tests.interop.kafka.tools import Tools
from tests.java.peers import JavaClient
from tests.zookeeper import ZooKeeperServer

pytestmark = [pytest.mark.interop, pytest.mark.java, pytest.mark.timeout(240)]


@pytest.fixture(scope="module")
def pair(
    zookeeper: ZooKeeperServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[list[ClusterBroker]]:
    with ThreeBookies(zookeeper, tmp_path_factory.mktemp("bookies")) as cluster:
        yield start(cluster, 1, 2)


def described(tools: Tools, topic: str) -> list[tuple[str, str, str, str]]:
    """Return partition, leader, replicas, isr as kafka-topics shows them."""
    rows = tools("topics", "--describe", "--topic", topic).rows
    found = [dict(zip(row[::2], row[1::2], strict=False)) for row in rows if "Partition:" in row]
    return [(r["Partition:"], r["Leader:"], r["Replicas:"], r["Isr:"]) for r in found]


def plan(path: Path, topic: str, replicas: Mapping[int, Sequence[int]]) -> str:
    moved = [{"topic": topic, "partition": at, "replicas": to} for at, to in replicas.items()]
    path.write_text(json.dumps({"version": 1, "partitions": moved}))
    return str(path)


def test_kafka_reassign_partitions_moves_what_it_is_told_to(
    kafka_4: JavaClient, pair: list[ClusterBroker], topic: str, tmp_path: Path
) -> None:
    tools = Tools(kafka_4, pair[0])
    tools("topics", "--create", "--topic", topic, "--replica-assignment", "1:2,2:1,2:1")
    kept = [("0", "1", "1,2", "1,2"), ("1", "2", "2,1", "2,1"), ("2", "2", "2,1", "2,1")]
    assert described(tools, topic) == kept
    named = ["--reassignment-json-file", plan(tmp_path / "p", topic, {0: [2, 1], 2: [1, 2]})]
    started = tools("reassign-partitions", *named, "--execute").out
    assert f"Successfully started partition reassignments for {topic}-0,{topic}-2" in started
    until(lambda: "is still" not in tools("reassign-partitions", *named, "--verify").out)
    verified = tools("reassign-partitions", *named, "--verify").out
    for index in (0, 2):
        assert f"Reassignment of partition {topic}-{index} is completed." in verified
    assert "No partition reassignments found." in tools("reassign-partitions", "--list").out
    moved = [("0", "2", "2,1", "2,1"), ("1", "2", "2,1", "2,1"), ("2", "1", "1,2", "1,2")]
    assert described(tools, topic) == moved
    until(lambda: described(Tools(kafka_4, pair[1]), topic) == moved)
    cancelled = tools("reassign-partitions", *named, "--cancel").out
    assert "None of the specified partition moves are active." in cancelled
    wanted = tmp_path / "wanted"
    wanted.write_text(json.dumps({"version": 1, "topics": [{"topic": topic}]}))
    generate = ["--topics-to-move-json-file", str(wanted), "--broker-list", "2,1", "--generate"]
    printed = tools("reassign-partitions", *generate).out.splitlines()
    now, proposed = (json.loads(line) for line in printed if line.startswith("{"))
    assert [each["replicas"] for each in now["partitions"]] == [[2, 1], [2, 1], [1, 2]]
    assert [sorted(each["replicas"]) for each in proposed["partitions"]] == [[1, 2]] * 3
    of = ["--topic", topic, "--partition", "0"]
    done = tools("leader-election", "--election-type", "preferred", *of)
    assert "Valid replica already elected for partitions" in done.out


def test_java_clients_work_by_any_broker(
    kafka: JavaClient, pair: list[ClusterBroker], topic: str
) -> None:
    first, second = (Kafka(kafka, broker) for broker in pair)
    first.admin("topics.create", topic=topic, partitions=4)
    until(lambda: topic in first.admin("topics.list") and topic in second.admin("topics.list"))
    assert [each.admin("cluster.describe")["nodes"] for each in (first, second)] == [2, 2]
    for index in range(4):
        with (first, second)[index % 2].producer() as producer:
            values = [f"{index}-{n}" for n in range(5)]
            assert producer.send(topic, values, partition=index) == list(range(5))
    expected = [f"{index}-{n}" for index in range(4) for n in range(5)]
    at = f"{topic}-{3}"
    for clients in (first, second):
        with clients.consumer(**{"group.id": topic}) as consumer:
            consumer("subscribe", topics=[topic])
            assert sorted(consumer.values(20)) == expected
            if clients is second:
                consumer("commit", offsets={at: 5})
    assert first.admin("groups.offsets", group=topic) == {at: 5}
    assert topic in second.admin("groups.list")
