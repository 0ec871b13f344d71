"""With aiokafka, and with a broker of other settings than the rest."""

import asyncio

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from tailrace.testing import Broker


async def round_trip(bootstrap: str, topic: str) -> bytes | None:
    async with AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:
        await producer.send_and_wait(topic, b"hello")
    consumer = AIOKafkaConsumer(topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest")
    async with consumer, asyncio.timeout(20):
        value: bytes | None = (await consumer.getone()).value
        return value


def test_a_record_comes_back(tailrace: Broker, tailrace_topic: str) -> None:
    assert asyncio.run(round_trip(tailrace.bootstrap, tailrace_topic)) == b"hello"


def test_a_broker_without_a_fixture() -> None:
    async def run() -> bytes | None:
        async with Broker(settings={"num.partitions": 1}) as broker:
            return await round_trip(broker.bootstrap, "greetings")

    assert asyncio.run(run()) == b"hello"
