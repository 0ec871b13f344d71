"""A watch, or a listener, that raises keeps nobody from what he waits for."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tailrace.core.metadata.sqlite import SqliteStore
from tailrace.core.metadata.store import MetadataStore, WatchEvent
from tailrace.core.metadata.zookeeper import ZookeeperStore
from tailrace.core.runtime.clock import ManualClock
from tests.zookeeper import ZooKeeperServer


async def bad_watch_first(store: MetadataStore) -> None:
    raised: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, what: raised.append(what))
    heard = asyncio.Event()

    def bad(_path: str, _event: WatchEvent) -> None:
        raise ZeroDivisionError("a bug")

    def good(_path: str, _event: WatchEvent) -> None:
        heard.set()

    await store.create("/a")
    await store.get("/a", bad)
    await store.get("/a", good)
    async with asyncio.timeout(20):
        await store.set("/a", b"1")  # its caller is answered
        await heard.wait()
        assert (await store.get("/a")).data == b"1"
    assert [str(each["exception"]) for each in raised] == ["a bug"]


def test_in_sqlite(tmp_path: Path) -> None:
    async def story() -> None:
        store = SqliteStore(tmp_path / "metadata", ManualClock())
        await bad_watch_first(store)
        await store.close()

    asyncio.run(story())


@pytest.mark.java
def test_in_zookeeper(zookeeper: ZooKeeperServer) -> None:
    async def story() -> None:
        root = await asyncio.to_thread(zookeeper.make_root)
        store = await ZookeeperStore.connect(zookeeper.hosts, chroot=root)
        await bad_watch_first(store)
        await store.close()

    asyncio.run(story())
