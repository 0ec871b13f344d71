"""Consumer groups of aiokafka (JoinGroup up to v5, no flexible versions) against a real broker."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.structs import OffsetAndMetadata

from tests.process import TailraceProcess

pytestmark = pytest.mark.interop

PARTITIONS = 4


def run(work: Coroutine[Any, Any, None]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(90):
            await work

    asyncio.run(bounded())


async def create(broker: TailraceProcess, topic: str) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=broker.bootstrap)
    await admin.start()
    try:
        await admin.create_topics([NewTopic(topic, PARTITIONS, 1)])
    finally:
        await admin.close()


async def produce(broker: TailraceProcess, topic: str, values: Sequence[str]) -> None:
    async with AIOKafkaProducer(bootstrap_servers=broker.bootstrap, acks="all") as producer:
        for number, value in enumerate(values):
            await producer.send_and_wait(topic, value.encode(), partition=number % PARTITIONS)


def consumer(broker: TailraceProcess, topic: str, **options: Any) -> AIOKafkaConsumer:
    defaults: dict[str, Any] = {
        "bootstrap_servers": broker.bootstrap,
        "group_id": topic,
        "auto_offset_reset": "earliest",
        "enable_auto_commit": False,
        "heartbeat_interval_ms": 300,
    }
    return AIOKafkaConsumer(topic, **{**defaults, **options})


@asynccontextmanager
async def members(
    broker: TailraceProcess, topic: str, count: int
) -> AsyncIterator[list[AIOKafkaConsumer]]:
    made: list[AIOKafkaConsumer] = []
    try:
        for _ in range(count):
            made.append(consumer(broker, topic))
            await made[-1].start()
        yield made
    finally:
        for member in made:
            await member.stop()


def owned(member: AIOKafkaConsumer) -> set[int]:
    return {position.partition for position in member.assignment()}


def shared_out(made: Sequence[AIOKafkaConsumer]) -> bool:
    partitions = [partition for member in made for partition in owned(member)]
    return sorted(partitions) == list(range(PARTITIONS)) and all(owned(m) for m in made)


async def poll_until(
    made: Sequence[AIOKafkaConsumer], done: Callable[[], bool], values: list[bytes]
) -> None:
    """Read with all members until something is so; the test's own deadline ends it otherwise."""
    while not done():
        for member in made:
            for records in (await member.getmany(timeout_ms=50)).values():
                values += [record.value for record in records]


@pytest.mark.parametrize("count", [1, 2, 3])
def test_partitions_are_shared_out(broker: TailraceProcess, topic: str, count: int) -> None:
    async def work() -> None:
        await create(broker, topic)
        async with members(broker, topic, count) as made:
            values: list[bytes] = []
            await poll_until(made, lambda: shared_out(made), values)
            await produce(broker, topic, [f"v{n}" for n in range(24)])
            await poll_until(made, lambda: len(values) >= 24, values)
            assert sorted(values) == sorted(f"v{n}".encode() for n in range(24))

    run(work())


def test_when_one_leaves_the_others_take_over(broker: TailraceProcess, topic: str) -> None:
    async def work() -> None:
        await create(broker, topic)
        async with members(broker, topic, 3) as made:
            await poll_until(made, lambda: shared_out(made), [])
            await made.pop().stop()
            await poll_until(made, lambda: shared_out(made), [])
            await made.pop().stop()
            await poll_until(made, lambda: owned(made[0]) == set(range(PARTITIONS)), [])

    run(work())


def test_a_group_resumes_where_it_committed(broker: TailraceProcess, topic: str) -> None:
    async def work() -> None:
        await create(broker, topic)
        await produce(broker, topic, [f"a{n}" for n in range(20)])
        async with members(broker, topic, 1) as made:
            values: list[bytes] = []
            await poll_until(made, lambda: len(values) >= 20, values)
            await made[0].commit()
        await produce(broker, topic, ["b"])
        async with members(broker, topic, 1) as made:
            values = []
            await poll_until(made, lambda: len(values) >= 1, values)
            assert values == [b"b"]
            assert await made[0].committed(TopicPartition(topic, 1)) == 5

    run(work())


def test_a_static_member_comes_back_as_itself(broker: TailraceProcess, topic: str) -> None:
    async def work() -> None:
        await create(broker, topic)
        other = consumer(broker, topic, group_instance_id="other")
        member = consumer(broker, topic, group_instance_id="one")
        await other.start()
        await member.start()
        made = [other, member]
        await poll_until(made, lambda: shared_out(made), [])
        before = [owned(each) for each in made]
        await member.stop()
        made[1] = consumer(broker, topic, group_instance_id="one")
        await made[1].start()
        try:
            await poll_until(made, lambda: shared_out(made), [])
            assert [owned(each) for each in made] == before
        finally:
            for each in made:
                await each.stop()

    run(work())


def test_offsets_and_members_survive_a_killed_broker(
    broker_factory: type[TailraceProcess], topic: str
) -> None:
    async def work() -> None:
        broker = broker_factory().start()
        await create(broker, topic)
        await produce(broker, topic, [f"a{n}" for n in range(20)])
        async with members(broker, topic, 2) as made:
            values: list[bytes] = []
            await poll_until(made, lambda: shared_out(made) and len(values) >= 20, values)
            for member in made:
                await member.commit()
            before = [owned(member) for member in made]
            await asyncio.to_thread(broker.kill)
            await asyncio.to_thread(broker.restart)
            await produce(broker, topic, [f"b{n}" for n in range(4)])
            await poll_until(made, lambda: len(values) >= 24, values)
            assert [owned(member) for member in made] == before
            noted = {TopicPartition(topic, p): OffsetAndMetadata(6, "n") for p in before[0]}
            await made[0].commit(noted)
        await asyncio.to_thread(broker.kill)
        await asyncio.to_thread(broker.restart)
        async with members(broker, topic, 1) as made:
            for partition in range(PARTITIONS):
                expected = 6 if partition in before[0] else 5
                assert await made[0].committed(TopicPartition(topic, partition)) == expected

    run(work())
