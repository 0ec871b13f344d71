"""A store of each kind for tests of what is kept in it."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tailrace.core.metadata.sqlite import SqliteStore
from tailrace.core.metadata.store import MetadataStore
from tailrace.core.metadata.zookeeper import ZookeeperStore
from tailrace.core.runtime.clock import ManualClock
from tailrace.simulation.metadata import MetadataServer
from tests.secure_zookeeper import SaslZooKeeper


@asynccontextmanager
async def opened(
    kind: str, request: pytest.FixtureRequest, path: Path
) -> AsyncIterator[MetadataStore]:
    store: MetadataStore
    if kind == "sqlite":
        store = SqliteStore(path / "m", ManualClock())
    elif kind == "simulated":
        store = MetadataServer(Random(1)).open()
    else:
        server = request.getfixturevalue("zookeeper")
        root = await asyncio.to_thread(server.make_root)
        store = await ZookeeperStore.connect(server.hosts, chroot=root)
    try:
        yield store
    finally:
        await store.close()


@pytest.fixture(scope="session")
def sasl_zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SaslZooKeeper]:
    """One that knows the users of `tests.secure_zookeeper`."""
    server = SaslZooKeeper(tmp_path_factory.mktemp("sasl") / "zk").start()
    yield server
    server.stop()


@pytest.fixture(params=["sqlite", "simulated", pytest.param("zookeeper", marks=pytest.mark.java)])
def run(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    def runner(story: Callable[[MetadataStore], Coroutine[Any, Any, None]]) -> None:
        async def main() -> None:
            async with opened(request.param, request, tmp_path) as store:
                await story(store)

        asyncio.run(main(), debug=True)

    if request.param == "zookeeper":
        request.getfixturevalue("zookeeper")
    return runner
