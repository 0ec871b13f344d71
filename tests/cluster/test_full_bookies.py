"""All bookies without room: brokers take over and read, and write again once there is some."""

import json
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from typing_extensions import override

from tests.bookie_process import BookieUnderTest
from tests.cluster.several_brokers import (
    CLIENT,
    PARTITIONS,
    TOPIC,
    create,
    leaders,
    produce,
    start,
    until,
    values,
)
from tests.cluster.three_bookies import ClusterBroker, ThreeBookies
from tests.ports import free_port
from tests.zookeeper import ZooKeeperServer

pytestmark = [pytest.mark.java, pytest.mark.timeout(240)]

BEFORE = sorted(f"before-{at}".encode() for at in range(PARTITIONS))
DURING = sorted(f"during-{at}".encode() for at in range(PARTITIONS))


class FillableBookies(ThreeBookies):
    """Bookies that are told that they have no room, not even for recovery's adds."""

    def __init__(self, zookeeper: ZooKeeperServer, folder: Path) -> None:
        self._http_ports: list[int] = []
        super().__init__(zookeeper, folder)

    @override
    def _bookie(self, number: int) -> BookieUnderTest:
        bookie = super()._bookie(number)
        self._http_ports.append(free_port())
        bookie.arguments += (
            "--set", "httpServerEnabled=true", "--set", f"httpServerPort={self._http_ports[-1]}",
            "--set", f"minUsableSizeForHighPriorityWrites={1 << 60}",
        )  # fmt: skip
        return bookie

    def fill(self, *, is_full: bool = True) -> None:
        """Make all of them read-only, or writable."""
        for port in self._http_ports:
            url = f"http://127.0.0.1:{port}/api/v1/bookie/state/readonly"
            body = json.dumps({"readOnly": is_full}).encode()
            with urllib.request.urlopen(
                urllib.request.Request(url, body, method="PUT"), timeout=30
            ) as answer:
                assert answer.status == 200


@pytest.fixture
def cluster(zookeeper: ZooKeeperServer, tmp_path: Path) -> Iterator[FillableBookies]:
    with FillableBookies(zookeeper, tmp_path) as made:
        yield made


def member(broker: ClusterBroker) -> Consumer:
    """Return a consumer in whose name nothing is written unasked."""
    config = {"bootstrap.servers": broker.bootstrap, "group.id": "g", "enable.auto.commit": False}
    return Consumer({**config, **CLIENT})


def read_all(broker: ClusterBroker, count: int) -> list[bytes]:
    """Return the values of the first records of all partitions, without a group that writes."""
    consumer = member(broker)
    consumer.assign([TopicPartition(TOPIC, at, 0) for at in range(PARTITIONS)])
    found: list[bytes] = []
    while len(found) < count:
        found += values(consumer.consume(count - len(found), 60)) or pytest.fail(f"only {found}")
    until(lambda: committed(consumer) == [1])
    consumer.close()
    return sorted(found)


def committed(consumer: Consumer) -> list[int]:
    """Return the group's offset of partition 0; nothing while its coordinator is on the move."""
    try:
        return [each.offset for each in consumer.committed([TopicPartition(TOPIC, 0)], 60)]
    except KafkaException as error:
        if error.args[0].code() not in (KafkaError.NOT_COORDINATOR, KafkaError._WAIT_COORD):
            raise
        return []


def commit(broker: ClusterBroker) -> None:
    consumer = member(broker)
    consumer.commit(offsets=[TopicPartition(TOPIC, 0, 1)], asynchronous=False)
    consumer.close()


def test_reads_go_on_through_a_takeover_and_writes_when_there_is_room(
    cluster: FillableBookies,
) -> None:
    first, second = start(cluster, 1, 2)
    create(first)
    until(lambda: len(set(leaders(first))) == 2)
    produce(first, "before-")
    commit(first)
    cluster.fill()
    bootstrap = f"{first.bootstrap},{second.bootstrap}"
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, **CLIENT})
    delivered: list[KafkaError | None] = []
    for at in range(PARTITIONS):
        producer.produce(
            TOPIC, DURING[at], partition=at, on_delivery=lambda error, _: delivered.append(error)
        )
    for broker in (first, second):  # their logs have failed, are open again, and refuse
        broker.wait_for("roll_given_up")
    assert read_all(first, PARTITIONS) == BEFORE
    first.kill()
    until(lambda: leaders(second) == [2] * PARTITIONS)
    assert read_all(second, PARTITIONS) == BEFORE
    assert delivered == []
    cluster.fill(is_full=False)
    assert producer.flush(120) == 0
    assert delivered == [None] * PARTITIONS
    assert read_all(second, 2 * PARTITIONS) == sorted(BEFORE + DURING)
