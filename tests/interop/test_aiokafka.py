"""aiokafka (versions below the flexible ones) against a broker from the command line."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from tests.process import TailraceProcess

pytestmark = pytest.mark.interop


def _run(what: Coroutine[Any, Any, None]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(60):
            await what

    asyncio.run(bounded())


@pytest.mark.parametrize("codec", [None, "gzip", "snappy", "lz4", "zstd"])
def test_what_is_produced_is_consumed(
    broker: TailraceProcess, topic: str, codec: str | None
) -> None:
    async def work() -> None:
        async with AIOKafkaProducer(
            bootstrap_servers=broker.bootstrap, compression_type=codec, acks="all"
        ) as producer:
            sent = [
                await producer.send(topic, f"v{n}".encode(), key=b"k", headers=[("h", b"x")])
                for n in range(200)
            ]
            offsets = [(await future).offset for future in sent]
        assert offsets == list(range(200))
        async with AIOKafkaConsumer(
            bootstrap_servers=broker.bootstrap, auto_offset_reset="earliest"
        ) as consumer:
            consumer.assign([TopicPartition(topic, 0)])
            records = [await consumer.getone() for _ in range(200)]
        assert [r.value for r in records] == [f"v{n}".encode() for n in range(200)]
        assert records[3].headers == (("h", b"x"),)

    _run(work())


def test_idempotent_producer(broker: TailraceProcess, topic: str) -> None:
    async def work() -> None:
        async with AIOKafkaProducer(
            bootstrap_servers=broker.bootstrap, enable_idempotence=True
        ) as producer:
            sent = [await producer.send(topic, b"v") for _ in range(100)]
            assert [(await future).offset for future in sent] == list(range(100))

    _run(work())


def test_a_group_commits_and_resumes(broker: TailraceProcess, topic: str) -> None:
    async def read(count: int) -> list[int]:
        async with AIOKafkaConsumer(
            topic,
            bootstrap_servers=broker.bootstrap,
            group_id=f"g-{topic}",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        ) as consumer:
            offsets = [(await consumer.getone()).offset for _ in range(count)]
            await consumer.commit({TopicPartition(topic, 0): offsets[-1] + 1})
        return offsets

    async def work() -> None:
        async with AIOKafkaProducer(bootstrap_servers=broker.bootstrap) as producer:
            for _ in range(20):
                await producer.send_and_wait(topic, b"v")
        assert await read(8) == list(range(8))
        assert await read(12) == list(range(8, 20))

    _run(work())


def test_admin_and_offsets(broker: TailraceProcess, topic: str) -> None:
    async def work() -> None:
        admin = AIOKafkaAdminClient(bootstrap_servers=broker.bootstrap)
        await admin.start()
        await admin.create_topics([NewTopic(topic, 2, 1)])
        assert topic in await admin.list_topics()
        async with AIOKafkaConsumer(bootstrap_servers=broker.bootstrap) as consumer:
            both = [TopicPartition(topic, 0), TopicPartition(topic, 1)]
            assert await consumer.beginning_offsets(both) == dict.fromkeys(both, 0)
            assert await consumer.end_offsets(both) == dict.fromkeys(both, 0)
        await admin.delete_topics([topic])
        await admin.close()

    _run(work())
