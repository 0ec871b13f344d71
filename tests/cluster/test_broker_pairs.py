"""Two brokers on one namespace: what one does the other hears of, and who is away is fenced."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, Producer
from confluent_kafka.admin import AdminClient

from tailrace.protocol.kafka.apis import DESCRIBE_CONFIGS, INCREMENTAL_ALTER_CONFIGS
from tailrace.protocol.kafka.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from tailrace.protocol.kafka.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.cluster.load import PARTITIONS, TOPIC, Load, create_topic
from tests.cluster.raw import RawClient
from tests.cluster.three_bookies import ClusterBroker, ThreeBookies
from tests.zookeeper import ZooKeeperServer

TOPICS, BROKERS, GROUPS = 2, 4, 32
"""Kinds of config resources."""

pytestmark = [pytest.mark.java, pytest.mark.timeout(240)]


@pytest.fixture
def cluster(zookeeper: ZooKeeperServer, tmp_path: Path) -> Iterator[ThreeBookies]:
    with ThreeBookies(zookeeper, tmp_path) as made:
        yield made


def test_an_owner_that_was_away_for_too_long_is_fenced(cluster: ThreeBookies) -> None:
    first = cluster.broker().start()
    create_topic(first.bootstrap, replication_factor=3)
    load = Load(first.bootstrap)
    load.start()
    load.wait_for_progress(200)
    second = cluster.broker("--set", "node.id=2").start()
    first.pause()
    cluster.wait_until_gone(node_id=1)
    produce_to_all(second)
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


def produce_to_all(broker: ClusterBroker) -> None:
    """Produce to each partition, whoever owns it."""
    failed: list[KafkaError | None] = []
    producer = Producer({"bootstrap.servers": broker.bootstrap, "message.timeout.ms": 60_000})
    for partition in range(PARTITIONS):
        producer.produce(
            TOPIC,
            b"-1",
            partition=partition,
            on_delivery=lambda e, _: failed.append(e) if e else None,
        )
    assert producer.flush(90) == 0
    assert not failed


def test_each_hears_of_the_others_topics_and_configs(cluster: ThreeBookies) -> None:
    first, second = cluster.broker().start(), cluster.broker("--set", "node.id=2").start()
    create_topic(first.bootstrap, replication_factor=3)
    wait_for_topic(second)
    produce_to_all(second)
    set_config(first, BROKERS, "", "log.retention.ms", "7654321")
    wait_for_config(second, TOPICS, TOPIC, "retention.ms", "7654321")
    set_config(second, GROUPS, "a/group", "consumer.session.timeout.ms", "50000")
    wait_for_config(first, GROUPS, "a/group", "consumer.session.timeout.ms", "50000")


def test_a_topic_that_another_broker_owns_is_deleted_and_made_again(cluster: ThreeBookies) -> None:
    first, second = cluster.broker().start(), cluster.broker("--set", "node.id=2").start()
    create_topic(first.bootstrap, replication_factor=3)
    wait_for_topic(second)
    produce_to_all(second)
    admin = AdminClient({"bootstrap.servers": first.bootstrap})
    admin.delete_topics([TOPIC])[TOPIC].result(60)
    wait_for_topic(second, is_there=False)
    create_topic(first.bootstrap, replication_factor=2)
    wait_for_topic(second)
    produce_to_all(second)


def set_config(broker: ClusterBroker, kind: int, name: str, config: str, value: str) -> None:
    """Set one config of a resource by one broker."""
    change = AlterableConfig(name=config, config_operation=0, value=value)
    resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=[change])
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
    with RawClient(broker) as client:
        (told,) = client.ask(INCREMENTAL_ALTER_CONFIGS, 1, request).responses
    assert told.error_code == 0, told.error_message


def wait_for_config(broker: ClusterBroker, kind: int, name: str, config: str, value: str) -> None:
    """Return once a broker says that a config has this value."""
    resource = DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=[config]
    )
    request = DescribeConfigsRequest(resources=[resource])
    deadline = time.monotonic() + 30
    with RawClient(broker) as client:
        while True:
            (result,) = client.ask(DESCRIBE_CONFIGS, 4, request).results
            if [each.value for each in result.configs] == [value]:
                return
            assert time.monotonic() < deadline, result
            client.wait(0.05)


def wait_for_topic(broker: ClusterBroker, *, is_there: bool = True) -> None:
    """Return once a broker has heard of the topic, or that it is gone."""
    admin, deadline = AdminClient({"bootstrap.servers": broker.bootstrap}), time.monotonic() + 30
    while (TOPIC in admin.list_topics().topics) is not is_there:
        assert time.monotonic() < deadline
