"""Transactions of kafka-python against a broker from the command line."""

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient
from kafka.structs import OffsetAndMetadata

from tests.process import TailraceProcess

pytestmark = [pytest.mark.interop, pytest.mark.filterwarnings("ignore::DeprecationWarning")]


def _producer(broker: TailraceProcess, transactional_id: str) -> KafkaProducer:
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap, transactional_id=transactional_id)
    producer.init_transactions()
    return producer


def test_committed_and_aborted(broker: TailraceProcess, topic: str) -> None:
    producer = _producer(broker, topic)
    for number in range(6):
        producer.begin_transaction()
        producer.send(topic, f"v{number}".encode(), partition=0).get(30)
        if number % 2:
            producer.abort_transaction()
        else:
            producer.commit_transaction()
    producer.close()
    consumer = KafkaConsumer(
        bootstrap_servers=broker.bootstrap,
        isolation_level="read_committed",
        consumer_timeout_ms=1_000,
    )
    consumer.assign([TopicPartition(topic, 0)])
    consumer.seek_to_beginning()
    assert [record.value for record in consumer] == [b"v0", b"v2", b"v4"]
    consumer.close()


def test_offsets_in_a_transaction_and_what_the_admin_sees(
    broker: TailraceProcess, topic: str
) -> None:
    at = TopicPartition(topic, 0)
    producer = _producer(broker, topic)
    for offset, end in ((1, producer.abort_transaction), (2, producer.commit_transaction)):
        producer.begin_transaction()
        producer.send(topic, b"v", partition=0).get(30)
        producer.send_offsets_to_transaction({at: OffsetAndMetadata(offset, "", -1)}, topic)
        end()
    producer.begin_transaction()
    producer.send(topic, b"v", partition=0).get(30)  # not before the last one is all over
    producer.commit_transaction()
    producer.close()
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    offsets = admin.list_group_offsets(topic)
    assert "offset=2" in str(offsets)
    admin.delete_groups([topic])
    assert topic not in str(admin.list_groups())
    admin.close()
