"""Clients of Python over SASL, with and without TLS, by each mechanism."""

import asyncio
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, Producer
from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from tests.sasl_broker import MECHANISMS, WITHIN_S, SaslBroker

pytestmark = [
    pytest.mark.interop,
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(params=[False, True], ids=["SASL_PLAINTEXT", "SASL_SSL"])
def tls(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture(params=MECHANISMS)
def mechanism(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_confluent(sasl: SaslBroker, mechanism: str, *, tls: bool) -> None:
    settings = sasl.confluent(mechanism, tls=tls)
    topic = f"confluent-{mechanism}-{tls}"
    producer = Producer(settings)
    producer.produce(topic, b"x")
    assert producer.flush(WITHIN_S) == 0
    consumer = Consumer({**settings, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    (message,) = consumer.consume(1, WITHIN_S)
    assert message.value() == b"x"
    consumer.close()


def test_kafka_python(sasl: SaslBroker, mechanism: str, *, tls: bool) -> None:
    settings = sasl.python(mechanism, tls=tls)
    topic = f"kafka-python-{mechanism}-{tls}"
    producer = KafkaProducer(**settings)
    producer.send(topic, b"x").get(WITHIN_S)
    producer.close()
    consumer = KafkaConsumer(**settings, auto_offset_reset="earliest")
    consumer.assign([TopicPartition(topic, 0)])
    found = consumer.poll(WITHIN_S * 1000)
    consumer.close()
    assert [each.value for some in found.values() for each in some] == [b"x"]


def test_aiokafka(sasl: SaslBroker, mechanism: str, *, tls: bool) -> None:
    settings: dict[str, Any] = sasl.python(mechanism, tls=tls)
    topic = f"aiokafka-{mechanism}-{tls}"

    async def work() -> None:
        async with asyncio.timeout(WITHIN_S):
            async with AIOKafkaProducer(**settings) as producer:
                await producer.send_and_wait(topic, b"x")
            async with AIOKafkaConsumer(
                topic, **settings, auto_offset_reset="earliest"
            ) as consumer:
                assert (await consumer.getone()).value == b"x"

    asyncio.run(work())
