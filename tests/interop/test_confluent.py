"""confluent-kafka (librdkafka) against a broker from the command line."""

import time

import pytest
from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from tests.process import TailraceProcess

pytestmark = pytest.mark.interop


def _produce(broker: TailraceProcess, topic: str, count: int, **options: object) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "acks": "all", **options})
    failed: list[object] = []
    for number in range(count):
        producer.produce(
            topic,
            f"value-{number}",
            key=f"key-{number}",
            headers=[("number", str(number).encode())],
            on_delivery=lambda error, _: failed.append(error) if error else None,
        )
        producer.poll(0)
    assert producer.flush(60) == 0
    assert failed == []


def _consume(broker: TailraceProcess, topic: str, count: int, partitions: int = 1) -> list[object]:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "reader"})
    consumer.assign([TopicPartition(topic, p, 0) for p in range(partitions)])
    messages: list[object] = []
    while len(messages) < count:
        batch = consumer.consume(count - len(messages), timeout=30)
        assert batch, f"{len(messages)} of {count}"
        assert [m.error() for m in batch if m.error()] == []
        messages += batch
    consumer.close()
    return messages


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_what_is_produced_is_consumed(broker: TailraceProcess, topic: str, codec: str) -> None:
    _produce(broker, topic, 500, **{"compression.type": codec})
    messages = _consume(broker, topic, 500)
    assert [m.offset() for m in messages] == list(range(500))
    assert [m.value() for m in messages] == [f"value-{n}".encode() for n in range(500)]
    assert messages[7].key() == b"key-7"
    assert messages[7].headers() == [("number", b"7")]


def test_idempotent_producer(broker: TailraceProcess, topic: str) -> None:
    _produce(broker, topic, 300, **{"enable.idempotence": True})
    assert [m.offset() for m in _consume(broker, topic, 300)] == list(range(300))


def test_a_fetch_waits_for_the_next_record(broker: TailraceProcess, topic: str) -> None:
    _produce(broker, topic, 1)
    consumer = Consumer(
        {"bootstrap.servers": broker.bootstrap, "group.id": "w", "fetch.wait.max.ms": 10_000}
    )
    consumer.assign([TopicPartition(topic, 0, 1)])
    assert consumer.poll(0.5) is None
    _produce(broker, topic, 1)
    message = consumer.poll(5)
    assert message is not None
    assert message.offset() == 1
    consumer.close()


def test_offsets_by_time_and_watermarks(broker: TailraceProcess, topic: str) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    base = int(time.time() * 1000) - 100_000
    for number in range(100):
        producer.produce(topic, b"v", timestamp=base + number * 10)
    assert producer.flush(30) == 0
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "t"})
    assert consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=10) == (0, 100)
    found = consumer.offsets_for_times(
        [TopicPartition(topic, 0, base + 495), TopicPartition(topic, 0, base)], timeout=10
    )
    assert found[0].offset in (50, 0)
    only = consumer.offsets_for_times([TopicPartition(topic, 0, base + 495)], timeout=10)
    assert only[0].offset == 50
    later = consumer.offsets_for_times([TopicPartition(topic, 0, base + 10_000_000)], timeout=10)
    assert later[0].offset == -1
    consumer.close()


def test_out_of_range_resets(broker: TailraceProcess, topic: str) -> None:
    _produce(broker, topic, 10)
    consumer = Consumer(
        {"bootstrap.servers": broker.bootstrap, "group.id": "r", "auto.offset.reset": "earliest"}
    )
    consumer.assign([TopicPartition(topic, 0, 5000)])
    message = consumer.poll(30)
    assert message is not None
    assert (message.error(), message.offset()) == (None, 0)
    consumer.close()


def test_admin(broker: TailraceProcess, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    new = NewTopic(topic, 3, 1, config={"retention.ms": "60000", "cleanup.policy": "delete"})
    admin.create_topics([new])[topic].result(30)
    with pytest.raises(KafkaException) as again:
        admin.create_topics([new])[topic].result(30)
    assert again.value.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS
    assert len(admin.list_topics(topic, timeout=10).topics[topic].partitions) == 3
    admin.create_partitions([NewPartitions(topic, 5)])[topic].result(30)
    described = admin.describe_topics(TopicCollection([topic]))[topic].result(30)
    assert len(described.partitions) == 5
    resource = ConfigResource(ResourceType.TOPIC, topic)
    configs = admin.describe_configs([resource])[resource].result(30)
    assert configs["retention.ms"].value == "60000"
    assert configs["max.message.bytes"].is_default
    change = ConfigEntry("retention.ms", "120000", incremental_operation=AlterConfigOpType.SET)
    altered = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[change])
    admin.incremental_alter_configs([altered])[altered].result(30)
    configs = admin.describe_configs([resource])[resource].result(30)
    assert configs["retention.ms"].value == "120000"
    cluster = admin.describe_cluster().result(30)
    assert [node.host for node in cluster.nodes] == ["127.0.0.1"]
    admin.delete_topics([topic])[topic].result(30)
    assert topic not in admin.list_topics(timeout=10).topics


def test_delete_records(broker: TailraceProcess, topic: str) -> None:
    _produce(broker, topic, 100)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    at = TopicPartition(topic, 0, 40)
    assert admin.delete_records([at])[at].result(30).low_watermark == 40
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "d"})
    assert consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=10) == (40, 100)
    consumer.close()
    earliest = {TopicPartition(topic, 0): OffsetSpec.earliest()}
    assert [f.result(10).offset for f in admin.list_offsets(earliest).values()] == [40]


def test_a_record_without_a_key_is_refused_by_a_compacted_topic(
    broker: TailraceProcess, topic: str
) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    compacted = NewTopic(topic, 1, 1, config={"cleanup.policy": "compact"})
    admin.create_topics([compacted])[topic].result(30)
    errors: list[object] = []
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    producer.produce(topic, b"v", on_delivery=lambda error, _: errors.append(error))
    producer.produce(topic, b"v", key=b"k", on_delivery=lambda error, _: errors.append(error))
    producer.flush(30)
    assert KafkaError.INVALID_RECORD in [error.code() for error in errors if error]


def test_a_batch_that_is_too_large_is_refused_and_the_connection_lives(
    broker: TailraceProcess, topic: str
) -> None:
    errors: list[object] = []
    producer = Producer({"bootstrap.servers": broker.bootstrap, "message.max.bytes": 20_000_000})
    for size in (8_000_000, 2_000_000, 900_000, 10):
        producer.produce(topic, b"x" * size, on_delivery=lambda error, _: errors.append(error))
        assert producer.flush(30) == 0
    codes = [error and error.code() for error in errors]
    assert codes == [KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.MSG_SIZE_TOO_LARGE, None, None]
