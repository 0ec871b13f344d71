"""kafka-python (pure Python) against a broker from the command line."""

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient, NewTopic

from tests.process import TailraceProcess

pytestmark = [pytest.mark.interop, pytest.mark.filterwarnings("ignore::DeprecationWarning")]


@pytest.mark.parametrize("codec", [None, "gzip", "lz4"])
def test_what_is_produced_is_consumed(
    broker: TailraceProcess, topic: str, codec: str | None
) -> None:
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap, acks="all", compression_type=codec)
    sent = [
        producer.send(topic, f"v{n}".encode(), key=b"k", headers=[("h", b"x")]) for n in range(200)
    ]
    producer.flush(30)
    assert [future.get(10).offset for future in sent] == list(range(200))
    producer.close()
    consumer = KafkaConsumer(bootstrap_servers=broker.bootstrap, consumer_timeout_ms=20_000)
    consumer.assign([TopicPartition(topic, 0)])
    consumer.seek_to_beginning()
    values = []
    for record in consumer:
        values.append(record.value)
        if len(values) == 200:
            break
    assert values == [f"v{n}".encode() for n in range(200)]
    consumer.close()


def test_a_group_commits_and_resumes(broker: TailraceProcess, topic: str) -> None:
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap)
    for _ in range(20):
        producer.send(topic, b"v")
    producer.flush(30)
    producer.close()

    def read(count: int) -> list[int]:
        consumer = KafkaConsumer(
            topic,
            bootstrap_servers=broker.bootstrap,
            group_id=f"g-{topic}",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            max_poll_records=count,
            consumer_timeout_ms=20_000,
        )
        offsets = []
        for record in consumer:
            offsets.append(record.offset)
            if len(offsets) == count:
                break
        consumer.commit()
        consumer.close()
        return offsets

    assert read(8) == list(range(8))
    assert read(12) == list(range(8, 20))


def test_admin_and_offsets(broker: TailraceProcess, topic: str) -> None:
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    admin.create_topics([NewTopic(topic, num_partitions=2, replication_factor=1)])
    assert topic in admin.list_topics()
    consumer = KafkaConsumer(bootstrap_servers=broker.bootstrap)
    both = [TopicPartition(topic, 0), TopicPartition(topic, 1)]
    assert consumer.end_offsets(both) == dict.fromkeys(both, 0)
    consumer.close()
    admin.delete_topics([topic])
    admin.close()
