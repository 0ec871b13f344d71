"""The admin client of aiokafka (AlterConfigs, no flexible versions) against a broker."""

import asyncio

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

from tests.process import TailraceProcess

pytestmark = pytest.mark.interop


def test_topics_configs_records_and_groups(broker: TailraceProcess, topic: str) -> None:
    async def work() -> None:
        admin = AIOKafkaAdminClient(bootstrap_servers=broker.bootstrap)
        await admin.start()
        try:
            await _topics_and_configs(admin, topic)
            await _records_and_groups(admin, broker, topic)
        finally:
            await admin.close()

    async def bounded() -> None:
        async with asyncio.timeout(60):
            await work()

    asyncio.run(bounded())


async def _topics_and_configs(admin: AIOKafkaAdminClient, topic: str) -> None:
    await admin.create_topics([NewTopic(topic, 1, 1, topic_configs={"retention.ms": "60000"})])
    await admin.create_partitions({topic: NewPartitions(3)})
    (described,) = await admin.describe_topics([topic])
    assert len(described["partitions"]) == 3
    change = ConfigResource(ConfigResourceType.TOPIC, topic, configs={"retention.ms": "70000"})
    await admin.alter_configs([change])
    asked = ConfigResource(ConfigResourceType.TOPIC, topic, configs={"retention.ms": None})
    (answer,) = await admin.describe_configs([asked])
    ((_, _, _, _, (config, *_)),) = answer.resources
    assert config[:2] == ("retention.ms", "70000")
    assert len((await admin.describe_cluster())["brokers"]) == 1


async def _records_and_groups(
    admin: AIOKafkaAdminClient, broker: TailraceProcess, topic: str
) -> None:
    at = TopicPartition(topic, 0)
    async with AIOKafkaProducer(bootstrap_servers=broker.bootstrap) as producer:
        for _ in range(10):
            await producer.send_and_wait(topic, b"v", partition=0)
    await admin.delete_records({at: RecordsToDelete(4)})
    async with AIOKafkaConsumer(
        topic, bootstrap_servers=broker.bootstrap, group_id=topic, auto_offset_reset="earliest"
    ) as consumer:
        assert (await consumer.getone()).offset == 4
        await consumer.commit({at: 5})
        (answer,) = await admin.describe_consumer_groups([topic])
        ((_, group, state, kind, _, members, *_),) = answer.groups
        assert (group, state, kind, len(members)) == (topic, "Stable", "consumer", 1)
    assert (topic, "consumer") in await admin.list_consumer_groups()
    assert (await admin.list_consumer_group_offsets(topic))[at].offset == 5
