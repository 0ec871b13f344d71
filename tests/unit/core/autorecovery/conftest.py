"""Stories over a store of each kind, and over two sessions of one cluster."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tailrace.core.autorecovery.underreplicated import UnderreplicatedLedgers
from tailrace.core.errors import Unavailable
from tailrace.core.metadata.layout import LEDGERS_ROOT
from tailrace.core.metadata.ledger_tree import initialize_layout
from tailrace.core.metadata.sqlite import SqliteStore
from tailrace.core.metadata.store import MetadataStore, SessionEvent
from tailrace.core.metadata.zookeeper import ZookeeperStore
from tailrace.core.runtime.clock import Clock, ManualClock
from tailrace.protocol.ids import BookieId
from tailrace.simulation.metadata import MetadataServer
from tests.zookeeper import ZooKeeperServer

B1, B2, B3 = (BookieId(f"127.0.0.1:{port}") for port in (3181, 3182, 3183))


class Cluster:
    """A cluster's metadata without bookies; any number of sessions, each with an expiry."""

    def __init__(self, open_store: Callable[[], Any], expire: Callable[[Any], Any] | None) -> None:
        self._open = open_store
        self._expire = expire
        self._stores: list[MetadataStore] = []

    async def open(self) -> MetadataStore:
        store: MetadataStore = await self._open()
        self._stores.append(store)
        return store

    async def marks(
        self, owner: str = "w1", clock: Clock | None = None, store: MetadataStore | None = None
    ) -> UnderreplicatedLedgers:
        store = store or await self.open()
        made = UnderreplicatedLedgers(
            store, LEDGERS_ROOT, owner, clock or ManualClock(), Random(owner)
        )
        await made.prepare()
        return made

    async def expire(self, store: MetadataStore) -> None:
        """End a session as if its process had been silent for too long."""
        assert self._expire is not None
        await self._expire(getattr(store, "real", store))

    async def close(self) -> None:
        for store in self._stores:
            await store.close()


class Eventful:
    """A store beside which something happens once, before or after its next operation of a kind."""

    def __init__(self, store: MetadataStore) -> None:
        self.real = store
        self.what = ""
        self.is_before = True
        self.event: Callable[[], Awaitable[Any]] | None = None

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.real, name)
        if name != self.what:
            return found

        async def call(*args: Any, **options: Any) -> Any:
            event, self.event, self.what = self.event, None, ""
            assert event is not None
            if self.is_before:
                await event()
                return await found(*args, **options)
            result = await found(*args, **options)
            await event()
            return result

        return call

    def beside(self, what: str, event: Callable[[], Awaitable[Any]], *, is_before: bool) -> None:
        self.what, self.event, self.is_before = what, event, is_before


class Deaf:
    """A store whose next operation of a kind is done, or not, and answered by nobody."""

    def __init__(self, store: MetadataStore) -> None:
        self.real = store
        self.drops: str | None = None
        self.is_done = True

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.real, name)
        if name != self.drops:
            return found

        async def unanswered(*args: Any, **options: Any) -> None:
            self.drops = None
            if self.is_done:
                await found(*args, **options)
            raise Unavailable("nobody answers")

        return unanswered


def sqlite_cluster(path: Path) -> Cluster:
    store = SqliteStore(path / "m", ManualClock())

    async def open_store() -> MetadataStore:
        return store

    return Cluster(open_store, None)


def simulated_cluster() -> Cluster:
    service = MetadataServer(Random(1))

    async def open_store() -> MetadataStore:
        return service.open()

    async def expire(store: Any) -> None:
        async def end() -> None:
            store.expire()
            store.tick()

        await next_session(store, end())

    return Cluster(open_store, expire)


def zookeeper_cluster(server: ZooKeeperServer, root: str) -> Cluster:
    async def open_store() -> MetadataStore:
        return await ZookeeperStore.connect(server.hosts, chroot=root)

    async def expire(store: Any) -> None:
        client_id = store._session._link.client_id
        await next_session(store, asyncio.to_thread(server.expire, *client_id))

    return Cluster(open_store, expire)


@asynccontextmanager
async def cluster_of(
    kind: str, request: pytest.FixtureRequest, path: Path
) -> AsyncIterator[Cluster]:
    if kind == "sqlite":
        cluster = sqlite_cluster(path)
    elif kind == "simulated":
        cluster = simulated_cluster()
    else:
        server = request.getfixturevalue("zookeeper")
        cluster = zookeeper_cluster(server, await asyncio.to_thread(server.make_root))
    try:
        await initialize_layout(await cluster.open(), LEDGERS_ROOT)
        yield cluster
    finally:
        await cluster.close()


async def next_session(store: MetadataStore, end: Awaitable[None]) -> None:
    """End a session and wait until its store has another one."""
    begun = asyncio.Event()

    def hear(event: SessionEvent) -> None:
        if event is SessionEvent.NEW_SESSION:
            begun.set()

    store.on_session(hear)
    await end
    await begun.wait()


def runner(kind: str, request: pytest.FixtureRequest, path: Path) -> Any:
    if kind == "zookeeper":
        request.getfixturevalue("zookeeper")

    def run(story: Callable[[Cluster], Coroutine[Any, Any, None]]) -> None:
        async def main() -> None:
            async with cluster_of(kind, request, path) as cluster:
                await story(cluster)

        asyncio.run(main(), debug=True)

    return run


ZOOKEEPER = pytest.param("zookeeper", marks=pytest.mark.java)


@pytest.fixture(params=["sqlite", "simulated", ZOOKEEPER])
def run_alone(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """Runs a story over a cluster that one process has for itself."""
    return runner(request.param, request, tmp_path)


@pytest.fixture(params=["simulated", ZOOKEEPER])
def run(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """Runs a story over a cluster that several sessions can share."""
    return runner(request.param, request, tmp_path)
