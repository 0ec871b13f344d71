"""Two brokers on one namespace: each serves what it can claim, and nothing is damaged."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, Producer
from confluent_kafka.admin import AdminClient

from tests.cluster.load import PARTITIONS, TOPIC, Load, create_topic
from tests.cluster.three_bookies import ClusterBroker, ThreeBookies
from tests.zookeeper import ZooKeeperServer

pytestmark = [pytest.mark.java, pytest.mark.timeout(240)]


@pytest.fixture
def cluster(zookeeper: ZooKeeperServer, tmp_path: Path) -> Iterator[ThreeBookies]:
    with ThreeBookies(zookeeper, tmp_path) as made:
        yield made


def test_the_second_claims_only_what_it_can(cluster: ThreeBookies) -> None:
    first = cluster.broker().start()
    create_topic(first.bootstrap, replication_factor=3)
    load = Load(first.bootstrap)
    load.start()
    load.wait_for_progress(200)
    second = cluster.broker("--set", "node.id=2").start()
    assert not can_produce(second)
    load.wait_for_progress(200)
    load.finish()
    load.check(first.bootstrap)
    assert first.stop() == 0
    assert can_produce(second)
    load.check(second.bootstrap)


def test_an_owner_that_was_away_for_too_long_is_fenced(cluster: ThreeBookies) -> None:
    first = cluster.broker().start()
    create_topic(first.bootstrap, replication_factor=3)
    load = Load(first.bootstrap)
    load.start()
    load.wait_for_progress(200)
    second = cluster.broker("--set", "node.id=2").start()
    first.pause()
    cluster.wait_until_gone(node_id=1)
    assert can_produce(second)
    first.resume()
    first.wait_for("partition failed")
    assert second.stop() == 0
    load.wait_for_progress(200)
    load.finish()
    load.check(first.bootstrap)


def test_an_id_is_given_once(cluster: ThreeBookies) -> None:
    cluster.broker().start()
    refusal = cluster.broker().refused()
    assert "another process runs as 1" in refusal
    assert "node.id" in refusal


def can_produce(broker: ClusterBroker) -> bool:
    """Try to produce to each partition by one broker alone, for a while."""
    failed: list[KafkaError] = []
    producer = Producer({"bootstrap.servers": broker.bootstrap, "message.timeout.ms": 5_000})
    for partition in range(PARTITIONS):
        producer.produce(
            TOPIC, b"-1", partition=partition, on_delivery=lambda e, _: e and failed.append(e)
        )
    assert producer.flush(30) == 0
    assert all(error.code() == KafkaError._MSG_TIMED_OUT for error in failed)
    assert len(failed) in (0, PARTITIONS)
    return not failed


def test_each_hears_of_the_others_topics(cluster: ThreeBookies) -> None:
    first, second = cluster.broker().start(), cluster.broker("--set", "node.id=2").start()
    create_topic(first.bootstrap, replication_factor=3)
    wait_for_topic(second)
    assert can_produce(second)
    assert not can_produce(first)


def test_a_topic_that_another_broker_owns_is_deleted_and_made_again(cluster: ThreeBookies) -> None:
    first, second = cluster.broker().start(), cluster.broker("--set", "node.id=2").start()
    create_topic(first.bootstrap, replication_factor=3)
    wait_for_topic(second)
    assert can_produce(second)
    admin = AdminClient({"bootstrap.servers": first.bootstrap})
    admin.delete_topics([TOPIC])[TOPIC].result(60)
    wait_for_topic(second, is_there=False)
    create_topic(first.bootstrap, replication_factor=2)
    wait_for_topic(second)
    assert can_produce(second)
    assert not can_produce(first)


def wait_for_topic(broker: ClusterBroker, *, is_there: bool = True) -> None:
    """Return once a broker has heard of the topic, or that it is gone."""
    admin, deadline = AdminClient({"bootstrap.servers": broker.bootstrap}), time.monotonic() + 30
    while (TOPIC in admin.list_topics().topics) is not is_there:
        assert time.monotonic() < deadline
