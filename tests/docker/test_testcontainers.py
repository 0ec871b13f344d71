"""`TailraceContainer` as Testcontainers' users have it, by each way that it finds the host."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient

from tailrace.testcontainers import TailraceContainer
from tests.docker.clients import from_a_container, from_the_host
from tests.docker.conftest import Built
from tests.docker.engine import docker
from tests.ports import free_port

testcontainers = pytest.importorskip("testcontainers.core.network")


@pytest.fixture
def network(daemon: None) -> Iterator[Any]:
    with testcontainers.Network() as made:
        yield made


@pytest.fixture
def kafka(image: Built) -> Iterator[TailraceContainer]:
    container = TailraceContainer(image.name)
    yield container
    if container._container is not None:
        container.stop()


def test_a_restart_keeps_port_and_data(kafka: TailraceContainer) -> None:
    bootstrap = kafka.with_setting("num.partitions", 3).start().get_bootstrap_server()
    to = {"bootstrap.servers": bootstrap, "metadata.recovery.strategy": "none"}
    producer = Producer(to)
    producer.produce("t", b"before", partition=2)
    assert producer.flush(60) == 0
    kafka.restart()
    assert kafka.get_bootstrap_server() == bootstrap
    producer.produce("t", b"after", partition=2)  # the same client goes on
    assert producer.flush(60) == 0
    consumer = Consumer({**to, "group.id": "g", "auto.offset.reset": "earliest"})
    consumer.subscribe(["t"])
    try:
        assert [each.value() for each in consumer.consume(2, 60)] == [b"before", b"after"]
    finally:
        consumer.close()


def test_clients_of_the_network_find_it_by_its_alias(
    network: Any, kafka: TailraceContainer, site_packages: Path
) -> None:
    kafka.with_network(network).with_network_aliases("kafka", "other").with_kraft().start()
    assert kafka.get_network_bootstrap_server() == "kafka:19092"
    assert "read 20" in from_the_host("aiokafka", kafka.get_bootstrap_server())
    within = ("other:19092", network.name, site_packages)
    assert "read 20" in from_a_container("confluent-kafka", *within)


@pytest.mark.parametrize("mode", ["docker_host", "gateway_ip", "bridge_ip"])
def test_clients_reach_it_whatever_way_testcontainers_takes(
    kafka: TailraceContainer, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from testcontainers.core.config import ConnectionMode, testcontainers_config

    monkeypatch.setattr(testcontainers_config, "connection_mode_override", ConnectionMode(mode))
    bootstrap = kafka.start().get_bootstrap_server()
    assert from_the_host("confluent-kafka", bootstrap) == "confluent-kafka read 20 records"
    within = kafka.get_network_bootstrap_server()
    listed = docker("exec", kafka.get_container_id(), "tailrace", "topic", "list", "--json")
    assert len(json.loads(listed)) == 1
    assert within.endswith(":19092")


def test_a_port_that_was_asked_for_is_kept_and_refused_when_taken(
    kafka: TailraceContainer, image: Built
) -> None:
    port = free_port()
    kafka.with_bind_ports(9092, port).start()
    assert kafka.get_exposed_port(9092) == port
    second = TailraceContainer(image.name).with_bind_ports(9092, port)
    with pytest.raises(Exception, match="port is already allocated"):
        second.start()
    second.stop()


def test_listeners_of_a_user_are_left_as_they_are(kafka: TailraceContainer) -> None:
    kafka.with_setting("advertised.listeners", "HOST://told.test:7").start()
    admin = AdminClient({"bootstrap.servers": kafka.get_bootstrap_server(), "log_level": 0})
    (broker,) = admin.list_topics(timeout=60).brokers.values()
    assert (broker.host, broker.port) == ("told.test", 7)


def test_a_broker_that_ends_says_why(kafka: TailraceContainer) -> None:
    with pytest.raises(RuntimeError, match="did you mean TAILRACE_NUM_PARTITIONS"):
        kafka.with_setting("num.partition", 3).start()


def test_a_taken_port_is_tried_no_second_time(
    kafka: TailraceContainer, image: Built, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = free_port(), free_port()
    ports = iter([first, first, second])
    monkeypatch.setattr("tailrace.testcontainers._free_port", lambda: next(ports))
    kafka.start()
    other = TailraceContainer(image.name).start()
    try:
        assert (kafka.get_exposed_port(9092), other.get_exposed_port(9092)) == (first, second)
    finally:
        other.stop()
