"""The admin client of kafka-python: what it asks of topics, groups and the cluster."""

from collections.abc import Iterator
from typing import Any

import pytest
from kafka import KafkaProducer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient, NewTopic
from kafka.structs import OffsetAndMetadata

from tests.process import TailraceProcess

pytestmark = [pytest.mark.interop, pytest.mark.filterwarnings("ignore::DeprecationWarning")]


@pytest.fixture
def admin(broker: TailraceProcess) -> Iterator[Any]:
    made = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    yield made
    made.close()


def test_configs_of_a_topic(admin: Any, topic: str) -> None:
    admin.create_topics([NewTopic(topic, 2, 1)])
    change = ConfigResource(ConfigResourceType.TOPIC, topic, configs={"retention.ms": "70000"})
    admin.alter_configs([change])
    described = admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)])
    assert "70000" in str(described)
    admin.reset_configs([ConfigResource(ConfigResourceType.TOPIC, topic, configs=["retention.ms"])])
    described = admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)])
    assert "70000" not in str(described)


def test_records_and_log_dirs(admin: Any, broker: TailraceProcess, topic: str) -> None:
    at = TopicPartition(topic, 0)
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap)
    for _ in range(10):
        producer.send(topic, b"v", partition=0)
    producer.flush(30)
    producer.close()
    admin.delete_records({at: 4})
    assert "'low_watermark': 4" in str(admin.delete_records({at: 4}))
    assert topic in str(admin.describe_log_dirs())
    assert topic in str(admin.describe_producers([at]))


def test_offsets_of_a_group(admin: Any, topic: str) -> None:
    at = TopicPartition(topic, 0)
    admin.create_topics([NewTopic(topic, 1, 1)])
    admin.alter_group_offsets(topic, {at: OffsetAndMetadata(3, "", -1)})
    assert "offset=3" in str(admin.list_group_offsets(topic))
    admin.delete_group_offsets(topic, [at])
    assert "offset=3" not in str(admin.list_group_offsets(topic))
    admin.delete_groups([topic])
    assert topic not in str(admin.list_groups())


def test_the_cluster(admin: Any, topic: str) -> None:
    admin.create_topics([NewTopic(topic, 1, 1)])
    (node,) = admin.describe_cluster()["brokers"]
    assert node["host"] == "127.0.0.1"
    assert admin.list_partition_reassignments() == {}
    assert "transaction.version" in str(admin.describe_features())
