"""Settings that are changed while a broker runs act at once, on what it does."""

import asyncio
from pathlib import Path

from tailrace.broker.cluster.alterations import Alteration, Changes, ConfigOp
from tailrace.broker.cluster.config_entities import EntityKind
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.ids import TopicPartition
from tests.cluster.in_process import running_broker

WITHIN_S = 20


async def is_let_in(port: int) -> bool:
    """Connect, and tell whether the broker keeps the connection or closes it at once."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    # ApiVersions v0 with correlation id 0 and no client id
    writer.write(bytes.fromhex("0000000a 0012 0000 00000000 ffff"))
    try:
        return bool(await reader.read(4))
    except ConnectionResetError:
        return False
    finally:
        writer.close()


def test_verification_of_transactions_and_groups_follow(tmp_path: Path) -> None:
    async def story() -> None:
        async with asyncio.timeout(WITHIN_S), running_broker(tmp_path) as broker:
            partition = TopicPartition("orders", 0)
            verified = {partition: ErrorCode.NONE}
            assert await broker.transactions.verify("t", 1, 0, [partition]) != verified
            wanted = {
                "transaction.partition.verification.enable": "false",
                "group.consumer.assignment.interval.ms": "7",
            }
            changes = Changes([Alteration(n, ConfigOp.SET, v) for n, v in wanted.items()])
            await broker.configs.alter_broker("1", changes, validate_only=False)
            assert await broker.transactions.verify("t", 1, 0, [partition]) == verified
            assert broker.groups.times_of("g").assignment_interval_ms == 7

    asyncio.run(story())


def test_the_number_of_connections_is_changed_at_run_time(tmp_path: Path) -> None:
    async def story() -> None:
        async with asyncio.timeout(WITHIN_S), running_broker(tmp_path) as broker:
            configs = broker.configs
            for most, expected in (("0", False), ("5", True)):
                change = Alteration("max.connections", ConfigOp.SET, most)
                await configs.alter_broker("", Changes([change]), validate_only=False)
                assert await is_let_in(broker.advertised.first.port) is expected
            assert configs.entities.get(EntityKind.BROKER, "") == {"max.connections": "5"}

    asyncio.run(story())
