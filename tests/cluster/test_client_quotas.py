"""Quotas on a real broker: set through the API, felt by real clients, kept over a restart.

Bounds are either far too low or never reached, so that no outcome hangs on how fast the tests run.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer, ThrottleEvent

from tailrace.protocol.kafka.apis import (
    ALTER_CLIENT_QUOTAS,
    CREATE_PARTITIONS,
    CREATE_TOPICS,
    DELETE_TOPICS,
    DESCRIBE_CLIENT_QUOTAS,
    FETCH,
)
from tailrace.protocol.kafka.messages import alter_client_quotas as alter
from tailrace.protocol.kafka.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from tailrace.protocol.kafka.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tailrace.protocol.kafka.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tailrace.protocol.kafka.messages.describe_client_quotas import DescribeClientQuotasRequest
from tests.cluster.raw import RawClient, batch, create_topic, fetch_request, produce
from tests.process import TailraceProcess

EXCEEDED = 89
FAR_TOO_LITTLE = 0.001


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TailraceProcess]:
    with TailraceProcess(tmp_path_factory.mktemp("broker") / "data") as running:
        yield running


def limit(broker: TailraceProcess, kind: str, name: str | None, **values: float) -> None:
    """Set quotas of one entity; 0 removes."""
    entry = alter.EntryData(
        entity=[alter.EntityData(entity_type=kind, entity_name=name)],
        ops=[alter.OpData(key=k, value=v, remove=not v) for k, v in values.items()],
    )
    with RawClient(broker) as client:
        answer = client.ask(ALTER_CLIENT_QUOTAS, 1, alter.AlterClientQuotasRequest(entries=[entry]))
    assert [each.error_code for each in answer.entries] == [0]


def asked(broker: TailraceProcess, api: Any, version: int, request: Any) -> Any:
    """Ask on a connection of its own: one that has to wait is not read."""
    with RawClient(broker) as client:
        return client.ask(api, version, request)


def test_topics_beyond_the_mutation_rate_are_refused(broker: TailraceProcess) -> None:
    """A fresh bucket may be overdrawn once; after that, versions that know the error get it."""

    def created(name: str, version: int) -> tuple[int, bool]:
        topic = CreatableTopic(name=name, num_partitions=2, replication_factor=1)
        answer = asked(broker, CREATE_TOPICS, version, CreateTopicsRequest(topics=[topic]))
        return answer.topics[0].error_code, answer.throttle_time_ms > 0

    limit(broker, "client-id", "raw", controller_mutation_rate=FAR_TOO_LITTLE)
    try:
        assert created("first", 7) == (0, False)
        assert created("second", 7) == (EXCEEDED, True)
        assert created("second", 5) == (0, True)
        more = CreatePartitionsTopic(name="first", count=3, assignments=None)
        grown = asked(broker, CREATE_PARTITIONS, 3, CreatePartitionsRequest(topics=[more]))
        assert (grown.results[0].error_code, grown.throttle_time_ms > 0) == (EXCEEDED, True)
        gone = asked(
            broker, DELETE_TOPICS, 6, DeleteTopicsRequest(topics=[DeleteTopicState(name="first")])
        )
        assert (gone.responses[0].error_code, gone.throttle_time_ms > 0) == (EXCEEDED, True)
        gone = asked(broker, DELETE_TOPICS, 4, DeleteTopicsRequest(topic_names=["first"]))
        assert (gone.responses[0].error_code, gone.throttle_time_ms > 0) == (0, True)
    finally:
        limit(broker, "client-id", "raw", controller_mutation_rate=0)


def test_a_fetch_over_its_quota_is_empty_until_the_quota_goes(broker: TailraceProcess) -> None:
    topic = create_topic(broker, "fetched")
    with RawClient(broker) as client:
        assert produce(client, topic, batch(b"x" * 1000)).error_code == 0
    limit(broker, "user", None, consumer_byte_rate=1)
    answer = asked(broker, FETCH, 11, fetch_request(topic))
    assert (answer.throttle_time_ms > 0, list(answer.responses)) == (True, [])
    limit(broker, "user", None, consumer_byte_rate=0)
    answer = asked(broker, FETCH, 11, fetch_request(topic))
    assert answer.throttle_time_ms == 0
    assert answer.responses[0].partitions[0].records


def test_librdkafka_hears_how_long_to_wait(broker: TailraceProcess) -> None:
    topic = create_topic(broker, "produced")
    heard: list[ThrottleEvent] = []
    limit(broker, "client-id", "loud", producer_byte_rate=1)
    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap,
            "client.id": "loud",
            "linger.ms": 0,
            "throttle_cb": heard.append,
        }
    )
    producer.produce(topic, b"x" * 1000)
    assert producer.flush(60) == 0  # it was appended
    while not heard:
        producer.poll(0.1)
    assert heard[0].throttle_time > 60  # seconds, for a kilobyte at a byte per second
    del producer
    limit(broker, "client-id", "loud", producer_byte_rate=0)


def test_quotas_outlive_the_broker(tmp_path: Path) -> None:
    with TailraceProcess(tmp_path / "data") as broker:
        limit(broker, "client-id", "raw", request_percentage=1_000_000)
    with TailraceProcess(tmp_path / "data") as broker:
        answer = asked(broker, DESCRIBE_CLIENT_QUOTAS, 1, DescribeClientQuotasRequest())
        assert answer.entries is not None
        assert [(e.entity[0].entity_name, e.values[0].value) for e in answer.entries] == [
            ("raw", 1_000_000)
        ]
