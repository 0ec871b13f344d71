"""Real clients for the fixture's tests: quiet ones that go on after a broker was cut off."""

from typing import Any

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from tailrace.testing import Broker

TIMEOUT_S = 60


def settings(broker: Broker, **more: object) -> dict[str, Any]:
    """Return a client's settings, underscores as dots."""
    given = {name.replace("_", "."): value for name, value in more.items()}
    return {
        "bootstrap.servers": broker.bootstrap,
        "metadata.recovery.strategy": "none",
        "reconnect.backoff.ms": 10,
        "reconnect.backoff.max.ms": 100,
        "log_level": 0,
        **given,
    }


def outcome(
    producer: Producer, topic: str, value: bytes = b"x", partition: int = 0
) -> KafkaError | None:
    """Send one record and return its error, None if it was acknowledged."""
    errors: list[KafkaError | None] = []
    producer.produce(
        topic, value, partition=partition, on_delivery=lambda error, _: errors.append(error)
    )
    assert producer.flush(TIMEOUT_S) == 0
    (error,) = errors
    return error


def values(broker: Broker, topic: str, count: int, **more: object) -> list[bytes | None]:
    """Return the first records of partition 0."""
    reader = settings(broker, group_id="values", auto_offset_reset="earliest", **more)
    consumer = Consumer(reader)
    consumer.assign([TopicPartition(topic, 0, 0)])
    found = consumer.consume(count, TIMEOUT_S)
    consumer.close()
    return [message.value() for message in found]
