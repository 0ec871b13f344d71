"""Two brokers over one store: what one is asked to change, the other follows; and crashes."""

import asyncio
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tailrace.broker.cluster.alterations import Alteration, Changes, ConfigOp
from tailrace.broker.cluster.config_codec import encode_configs
from tailrace.broker.cluster.config_entities import ConfigEntities
from tailrace.broker.cluster.dynamic_configs import DynamicConfigs
from tailrace.broker.cluster.paths import ClusterPaths
from tailrace.broker.cluster.settings import TopicDefaults
from tailrace.broker.cluster.topics import TopicRegistry
from tailrace.broker.config import BrokerConfig
from tailrace.broker.errors import KafkaError
from tailrace.core.metadata.child_watch import ChildWatch
from tailrace.core.metadata.sqlite import SqliteStore
from tailrace.core.runtime.clock import ManualClock
from tests.unit.broker.cluster.support import Crash, Fuse, FusedStore, Streams

WITHIN_S = 10


class Side:
    """One broker's configs and topics."""

    def __init__(self, store: Any, node_id: int) -> None:
        self.topics = TopicRegistry(
            store,
            Streams(),
            defaults=TopicDefaults({}),
            clock=ManualClock(),
            random=Random(node_id),
        )
        self.configs = DynamicConfigs(
            BrokerConfig(node_id=node_id), node_id, ConfigEntities(store), self.topics
        )

    async def start(self) -> None:
        await self.configs.start()
        await self.topics.start()

    async def put(self, broker: str, name: str, value: str) -> None:
        changes = Changes([Alteration(name, ConfigOp.SET, value)])
        await self.configs.alter_broker(broker, changes, validate_only=False)

    @property
    def retention_ms(self) -> int:
        return self.topics.defaults.settings.retention_ms


def test_the_other_broker_follows(tmp_path: Path) -> None:
    async def story() -> None:
        store = SqliteStore(tmp_path / "metadata.db", ManualClock())
        mine, theirs = Side(store, 1), Side(store, 2)
        for side in (mine, theirs):
            await side.start()
        watches = [
            ChildWatch(store, *watched) for watched in theirs.configs.entities.watched().values()
        ]
        for watch in watches:
            watch.start()
        try:
            async with asyncio.timeout(WITHIN_S):
                await mine.put("1", "log.retention.ms", "7")
                await mine.put("", "log.retention.ms", "8")
                await mine.put("", "max.connections", "9")
                while theirs.configs.in_force.network.connections_max != 9:
                    await store.exists("/")
            assert (mine.retention_ms, theirs.retention_ms) == (7, 8)
        finally:
            for watch in watches:
                await watch.close()
            await store.close()

    asyncio.run(story(), debug=True)


@pytest.mark.parametrize("after", [False, True])
def test_a_crash_leaves_the_old_or_the_new(tmp_path: Path, *, after: bool) -> None:
    async def story() -> None:
        store = SqliteStore(tmp_path / "metadata.db", ManualClock())
        try:
            before = Side(store, 1)
            await before.start()
            await before.put("", "log.retention.ms", "8")
            dying = Side(FusedStore(store, Fuse(4, after=after)), 1)
            await dying.start()  # four nodes that are there already
            with pytest.raises(Crash):
                await dying.put("", "log.retention.ms", "9")
            restarted = Side(store, 1)
            await restarted.start()
            assert restarted.retention_ms == (9 if after else 8)
        finally:
            await store.close()

    asyncio.run(story(), debug=True)


def test_what_another_release_stored_is_left_out(tmp_path: Path) -> None:
    async def story() -> None:
        store = SqliteStore(tmp_path / "metadata.db", ManualClock())
        try:
            stored = {"log.retention.ms": "5", "log.roll.ms": "never", "no.such": "1"}
            path = ClusterPaths().config_entity("brokers", "")
            await store.create(path, encode_configs(stored), parents=True)
            side = Side(store, 1)
            await side.start()
            assert side.retention_ms == 5
            assert side.topics.defaults.settings.segment_ms == 604_800_000
            with pytest.raises(KafkaError, match=r"no\.such"):
                await side.put("", "log.retention.ms", "6")
            gone = [Alteration(name, ConfigOp.DELETE, None) for name in ("no.such", "log.roll.ms")]
            await side.configs.alter_broker("", Changes(gone), validate_only=False)
            await side.put("", "log.retention.ms", "6")
            assert side.retention_ms == 6
        finally:
            await store.close()

    asyncio.run(story(), debug=True)
