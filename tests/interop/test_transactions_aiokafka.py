"""Transactions of aiokafka (no flexible versions) against a broker from the command line."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import ProducerFenced

from tests.process import TailraceProcess

pytestmark = pytest.mark.interop


def _run(what: Coroutine[Any, Any, None]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(60):
            await what

    asyncio.run(bounded())


def _producer(broker: TailraceProcess, transactional_id: str) -> AIOKafkaProducer:
    return AIOKafkaProducer(bootstrap_servers=broker.bootstrap, transactional_id=transactional_id)


async def _read(broker: TailraceProcess, topic: str, count: int) -> list[bytes | None]:
    """Return the committed values of a partition, and check that there are no more."""
    async with AIOKafkaConsumer(
        bootstrap_servers=broker.bootstrap,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
    ) as consumer:
        at = TopicPartition(topic, 0)
        consumer.assign([at])
        values = [(await consumer.getone()).value for _ in range(count)]
        assert await consumer.getmany(timeout_ms=100) == {}
        return values


def test_committed_and_aborted(broker: TailraceProcess, topic: str) -> None:
    async def work() -> None:
        async with _producer(broker, topic) as producer:
            for number in range(6):
                await producer.begin_transaction()
                await producer.send_and_wait(topic, f"v{number}".encode())
                if number % 2:
                    await producer.abort_transaction()
                else:
                    await producer.commit_transaction()
        assert await _read(broker, topic, 3) == [b"v0", b"v2", b"v4"]

    _run(work())


def test_offsets_in_a_transaction(broker: TailraceProcess, topic: str) -> None:
    async def work() -> None:
        at = TopicPartition(f"{topic}-in", 0)
        async with _producer(broker, topic) as producer:
            for offset, end in ((1, producer.abort_transaction), (2, producer.commit_transaction)):
                await producer.begin_transaction()
                await producer.send_and_wait(at.topic, b"v")
                await producer.send_offsets_to_transaction({at: offset}, topic)
                await end()
            async with producer.transaction():  # does not begin before the last one is all over
                await producer.send_and_wait(at.topic, b"v")
        async with AIOKafkaConsumer(
            bootstrap_servers=broker.bootstrap, group_id=topic, enable_auto_commit=False
        ) as consumer:
            assert await consumer.committed(at) == 2

    _run(work())


def test_a_zombie_is_fenced(broker: TailraceProcess, topic: str) -> None:
    async def work() -> None:
        async with _producer(broker, topic) as zombie:
            await zombie.begin_transaction()
            await zombie.send_and_wait(topic, b"lost")
            async with _producer(broker, topic) as successor, successor.transaction():
                await successor.send_and_wait(topic, b"kept")
            with pytest.raises(ProducerFenced):
                await zombie.commit_transaction()
        assert await _read(broker, topic, 1) == [b"kept"]

    _run(work())
