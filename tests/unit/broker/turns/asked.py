"""A broker of everything in this process, and a client of it in threads."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tailrace.core.runtime.kafka_connection import KafkaConnection
from tailrace.protocol.kafka.apis import CREATE_TOPICS, FIND_COORDINATOR
from tailrace.protocol.kafka.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tailrace.protocol.kafka.messages.find_coordinator import FindCoordinatorRequest
from tests.cluster.in_process import running_broker
from tests.unit.broker.turns.hostile import PARTITIONS, TOPIC


@asynccontextmanager
async def asked(path: Path) -> AsyncIterator[tuple[KafkaConnection, bytes]]:
    """Yield a client in a thread of its own, and the id of the topic that is there."""
    async with running_broker(path) as broker:
        host, _, port = str(broker.advertised.first).rpartition(":")
        client = await asyncio.to_thread(KafkaConnection, host, int(port), 120.0, "hostile")
        await asyncio.to_thread(_prepare, client)
        topic = broker.topics.get(TOPIC)
        assert topic is not None
        try:
            yield client, topic.topic_id
        finally:
            client.close()


def _prepare(client: KafkaConnection) -> None:
    topic = CreatableTopic(name=TOPIC, num_partitions=PARTITIONS, replication_factor=1)
    client.ask(CREATE_TOPICS, CreateTopicsRequest(topics=[topic]))
    for kind, name in ((0, "g"), (1, "x")):
        client.ask(FIND_COORDINATOR, FindCoordinatorRequest(key_type=kind, coordinator_keys=[name]))
