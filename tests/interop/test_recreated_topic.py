"""A topic that is deleted and made anew under a running librdkafka consumer."""

import time

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from tests.process import TailraceProcess

pytestmark = pytest.mark.interop

DEADLINE_S = 40


def _create(admin: AdminClient, topic: str) -> None:
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(DEADLINE_S)


def _send(broker: TailraceProcess, topic: str, values: list[bytes]) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(DEADLINE_S) == 0


def _read(consumer: Consumer, count: int) -> list[bytes | None]:
    found: list[bytes | None] = []
    deadline = time.monotonic() + DEADLINE_S
    while len(found) < count and time.monotonic() < deadline:
        message = consumer.poll(0.1)
        if message is not None and message.error() is None:
            found.append(message.value())
    return found


def test_its_consumer_reads_the_new_records_from_the_first_on(
    broker: TailraceProcess, topic: str
) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    _create(admin, topic)
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": f"group-{topic}",
            "auto.offset.reset": "earliest",
            "topic.metadata.refresh.interval.ms": 300,
        }
    )
    consumer.subscribe([topic])
    old = [b"old %d" % n for n in range(10)]
    _send(broker, topic, old)
    assert _read(consumer, len(old)) == old
    admin.delete_topics([topic])[topic].result(DEADLINE_S)
    time.sleep(1)  # the application is busy elsewhere; its client sees that the topic is gone
    _create(admin, topic)
    time.sleep(1)  # and that it is there again, before anything is in it
    new = [b"new %d" % n for n in range(5)]
    _send(broker, topic, new)
    assert _read(consumer, len(new)) == new
    consumer.close()
