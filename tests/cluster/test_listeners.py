"""Several listeners on one broker: each client is told the address that works for it."""

import asyncio
from collections.abc import Callable

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient

from tests.ports import free_port
from tests.process import TailraceProcess

LIBRDKAFKA = {"metadata.recovery.strategy": "none"}
ELSEWHERE = "127.0.0.2"
"""An address of this machine that nobody is told of."""


@pytest.fixture
def ports() -> tuple[int, int, int]:
    return free_port(), free_port(), free_port()


@pytest.fixture
def listening(
    broker_factory: Callable[..., TailraceProcess], ports: tuple[int, int, int]
) -> TailraceProcess:
    """A broker with a listener that names itself, one that is told, one for whoever reaches it."""
    own, told, reached = ports
    broker = broker_factory(
        *("--advertise", f"TOLD://localhost:{told}", "--set", "auto.create.topics.enable=true"),
        "--insecure",
    )
    return broker.start(
        f"OWN://127.0.0.1:{own},TOLD://127.0.0.1:{told},REACHED://0.0.0.0:{reached}"
    )


def brokers_told(bootstrap: str) -> list[str]:
    """Return the addresses that a client goes on with."""
    admin = AdminClient({"bootstrap.servers": bootstrap, **LIBRDKAFKA})
    brokers = admin.list_topics(timeout=30).brokers.values()
    described = admin.describe_cluster(request_timeout=30).result().nodes
    found = [f"{each.host}:{each.port}" for each in brokers]
    assert [f"{each.host}:{each.port}" for each in described] == found
    return found


async def to_and_fro(bootstrap: str, topic: str) -> bytes | None:
    """Send and read back a record as a member of a group, so by the coordinator's address too."""
    async with AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:
        await producer.send_and_wait(topic, bootstrap.encode())
    async with AIOKafkaConsumer(
        topic, bootstrap_servers=bootstrap, group_id=topic, auto_offset_reset="earliest"
    ) as consumer:
        record = await asyncio.wait_for(consumer.getone(), 30)
        await consumer.commit()
        return record.value


def to_and_fro_by_librdkafka(bootstrap: str, topic: str) -> bytes | None:
    producer = Producer({"bootstrap.servers": bootstrap, **LIBRDKAFKA})
    producer.produce(topic, bootstrap.encode())
    assert producer.flush(30) == 0
    to = {"bootstrap.servers": bootstrap, "group.id": topic, "auto.offset.reset": "earliest"}
    consumer = Consumer({**to, **LIBRDKAFKA})
    consumer.subscribe([topic])
    try:
        messages = consumer.consume(1, 30)
        assert [each.error() for each in messages] == [None]
        consumer.commit(asynchronous=False)
        return messages[0].value()
    finally:
        consumer.close()


def test_each_listener_tells_its_own_address(
    listening: TailraceProcess, ports: tuple[int, int, int]
) -> None:
    own, told, reached = ports
    assert listening.bootstrap == f"127.0.0.1:{own}"
    expected = {
        f"127.0.0.1:{own}": f"127.0.0.1:{own}",
        f"127.0.0.1:{told}": f"localhost:{told}",
        f"127.0.0.1:{reached}": f"127.0.0.1:{reached}",
        f"{ELSEWHERE}:{reached}": f"{ELSEWHERE}:{reached}",
    }
    assert {at: brokers_told(at) for at in expected} == {at: [to] for at, to in expected.items()}


def test_clients_of_every_listener_share_topics_and_groups(
    listening: TailraceProcess, ports: tuple[int, int, int]
) -> None:
    own, told, reached = ports
    for at in (f"127.0.0.1:{own}", f"127.0.0.1:{told}", f"{ELSEWHERE}:{reached}"):
        assert asyncio.run(to_and_fro(at, "aiokafka")) == at.encode()
        assert to_and_fro_by_librdkafka(at, "librdkafka") == at.encode()


def test_a_taken_port_of_a_second_listener_is_named_and_nothing_listens(
    listening: TailraceProcess,
    ports: tuple[int, int, int],
    broker_factory: Callable[..., TailraceProcess],
) -> None:
    free = free_port()
    said = broker_factory().refused(f"A://127.0.0.1:{free},B://127.0.0.1:{ports[1]}")
    assert f"'127.0.0.1', {ports[1]}" in said
    assert f"B://127.0.0.1:{ports[1]} is free" in said
    broker_factory().start(f"127.0.0.1:{free}")
