"""What a user wants to test: orders go into a topic, and come out again."""

import json
from typing import Any

from confluent_kafka import Consumer, KafkaError, Message, Producer


class NotTaken(Exception):
    """The broker did not acknowledge an order."""


def place(bootstrap: str, topic: str, order: dict[str, Any], timeout_s: float = 10.0) -> None:
    """Return once the order is acknowledged; NotTaken if it was not in time."""
    failures: list[KafkaError] = []

    def delivered(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            failures.append(error)

    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "message.timeout.ms": int(timeout_s * 1000),
        }
    )
    producer.produce(topic, json.dumps(order).encode(), key=order["id"], on_delivery=delivered)
    producer.flush()
    if failures:
        raise NotTaken(failures[0].str())


def placed(bootstrap: str, topic: str, count: int) -> list[dict[str, Any]]:
    """Return the first `count` orders of a topic; fewer if none comes for 10 s."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"reader-of-{topic}",
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe([topic])
    found: list[dict[str, Any]] = []
    try:
        while len(found) < count and (message := consumer.poll(10.0)) is not None:
            if message.error() is None:
                found.append(json.loads(message.value() or b"null"))
    finally:
        consumer.close()
    return found
