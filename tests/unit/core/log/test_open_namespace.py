"""Opening a namespace by its URI, on a real ZooKeeper and beside a standalone broker's file."""

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from tailrace.core.errors import (
    CorruptData,
    LogNotFound,
    NoNode,
    NotEnoughBookies,
    NotYetImplemented,
    Unavailable,
)
from tailrace.core.ledger.config import LedgerConfig
from tailrace.core.log.open_namespace import NamespaceOptions, open_namespace
from tailrace.core.metadata.bindings import bind_namespace
from tailrace.core.metadata.ledger_tree import initialize_layout
from tailrace.core.metadata.namespace_binding import BKDLConfig
from tailrace.core.metadata.store import MetadataStore
from tailrace.core.metadata.zookeeper import ZookeeperStore
from tests.unit.core.log.test_namespace import Nobody
from tests.unit.core.log.world import World, run_world
from tests.zookeeper import ZooKeeperServer


@pytest.fixture
def root(zookeeper: ZooKeeperServer) -> str:
    return zookeeper.make_root()


def on_zookeeper(
    zookeeper: ZooKeeperServer, story: Callable[[MetadataStore], Coroutine[Any, Any, None]]
) -> None:
    async def main() -> None:
        store = await ZookeeperStore.connect(zookeeper.hosts)
        try:
            await story(store)
        finally:
            await store.close()

    asyncio.run(main(), debug=True)


@pytest.mark.java
def test_the_binding_says_where_the_ledgers_are(zookeeper: ZooKeeperServer, root: str) -> None:
    uri = f"distributedlog-bk://{zookeeper.hosts}{root}/messaging/ns"

    async def story(store: MetadataStore) -> None:
        with pytest.raises(NoNode, match="not bound"):
            async with open_namespace(uri):
                pass
        await initialize_layout(store, f"{root}/mine", instance_id="i")
        binding = BKDLConfig(bk_zk_servers=zookeeper.hosts, bk_ledgers_path=f"{root}/mine")
        await bind_namespace(store, f"{root}/messaging", binding)
        async with open_namespace(uri) as opened:
            assert opened.store is opened.ledger_store
            await opened.logs.create_log("s")
            with pytest.raises(NotEnoughBookies):  # and not NoNode: it looks where bookies would be
                await opened.ledgers.create_ledger(LedgerConfig(), Nobody())
        assert await store.exists(f"{root}/messaging/ns/s/<default>/ledgers") is not None
        assert (await store.get(f"{root}/messaging/ns")).data == b""  # the ancestor binds it
        async with open_namespace(uri) as opened:
            assert await opened.logs.list_logs() == ["s"]

    on_zookeeper(zookeeper, story)


@pytest.mark.java
def test_other_servers_are_connected_to(zookeeper: ZooKeeperServer, root: str) -> None:
    uri = f"distributedlog://{zookeeper.hosts}{root}/ns"
    alias = f"localhost:{zookeeper.port}"

    async def story(store: MetadataStore) -> None:
        binding = BKDLConfig(
            bk_zk_servers=alias, bk_ledgers_path="/l", dl_zk_servers_for_writer=zookeeper.hosts
        )
        await bind_namespace(store, f"{root}/ns", binding)
        async with open_namespace(uri) as opened:
            assert opened.store is not opened.ledger_store
            assert opened.store.session_id != opened.ledger_store.session_id
        options = NamespaceOptions(ledger_servers=zookeeper.hosts)
        async with open_namespace(uri, options) as opened:
            assert opened.store is opened.ledger_store
        gone = BKDLConfig(
            bk_zk_servers="127.0.0.1:1", bk_ledgers_path="/l", dl_zk_servers_for_writer=alias
        )
        await bind_namespace(store, f"{root}/ns", gone, force=True)
        with pytest.raises(Unavailable):
            async with open_namespace(uri, NamespaceOptions(session_timeout_ms=1000)):
                pass
        async with open_namespace(uri, options) as opened:
            assert opened.store is opened.ledger_store

    on_zookeeper(zookeeper, story)


@pytest.mark.java
def test_a_binding_without_servers_is_corrupt(zookeeper: ZooKeeperServer, root: str) -> None:
    async def story(store: MetadataStore) -> None:
        binding = BKDLConfig(bk_zk_servers="no server", bk_ledgers_path="/l")
        await bind_namespace(store, f"{root}/ns", binding)
        with pytest.raises(CorruptData, match="no server"):
            async with open_namespace(f"distributedlog://{zookeeper.hosts}{root}/ns"):
                pass

    on_zookeeper(zookeeper, story)


@pytest.mark.java
def test_a_federated_namespace_is_refused(zookeeper: ZooKeeperServer, root: str) -> None:
    async def story(store: MetadataStore) -> None:
        binding = BKDLConfig(
            bk_zk_servers=zookeeper.hosts, bk_ledgers_path="/l", federated_namespace=True
        )
        await bind_namespace(store, f"{root}/ns", binding)
        with pytest.raises(NotYetImplemented, match="federated"):
            async with open_namespace(f"distributedlog://{zookeeper.hosts}{root}/ns"):
                pass

    on_zookeeper(zookeeper, story)


def test_a_standalone_namespace_is_looked_at(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await world.namespace().create_log("s")
        async with open_namespace(f"sqlite:{tmp_path / 'metadata'}") as opened:
            assert await opened.logs.list_logs() == ["s"]
            with pytest.raises(LogNotFound):
                await opened.logs.open_log("t")
            with pytest.raises(Unavailable):
                await opened.logs.create_log("t")

    run_world(tmp_path, story)
