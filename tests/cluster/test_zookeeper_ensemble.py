"""The metadata store over three ZooKeepers whose leaders die."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from tailrace.core.errors import BadVersion, Unavailable
from tailrace.core.metadata.store import SessionEvent, WatchEvent
from tailrace.core.metadata.zookeeper import ZookeeperStore
from tests.unit.core.metadata.store_contract import WatchLog
from tests.unit.core.metadata.test_zookeeper_session import SessionLog
from tests.zookeeper import Ensemble

pytestmark = [pytest.mark.java, pytest.mark.crash, pytest.mark.timeout(180)]


@pytest.fixture
def ensemble(tmp_path: Path) -> Iterator[Ensemble]:
    made = Ensemble(tmp_path)
    try:
        yield made.start()
    finally:
        made.stop()


class Counter:
    """Counts up by versioned sets; after an unknown outcome it looks what is there."""

    def __init__(self, store: ZookeeperStore) -> None:
        self._store = store
        self.done = 0
        self.unknown = 0
        self._moved = asyncio.Event()

    async def run(self, enough: asyncio.Event) -> None:
        while not enough.is_set():
            await self._once()

    async def reach(self, count: int) -> None:
        async with asyncio.timeout(60):
            while self.done < count:
                self._moved.clear()
                await self._moved.wait()

    async def _once(self) -> None:
        mine = b"%d" % self.done
        while True:
            try:
                node = await self._store.get("/n")
                if node.data != mine:  # else the attempt whose answer was lost has happened
                    await self._store.set("/n", mine, node.version)
            except (BadVersion, Unavailable):
                self.unknown += 1
            else:
                break
        self.done += 1
        self._moved.set()


def test_dying_leaders_cost_no_update_no_session_and_no_watch(ensemble: Ensemble) -> None:
    async def story() -> None:
        store = await ZookeeperStore.connect(ensemble.hosts, session_timeout_ms=40_000)
        log, watch = SessionLog(store), WatchLog()
        await store.create("/n", b"")
        await store.create("/e", ephemeral=True)
        await store.exists("/comes", watch)
        session_id = store.session_id
        counter, enough = Counter(store), asyncio.Event()
        counting = asyncio.create_task(counter.run(enough))
        for _ in range(3):
            before = counter.done
            leader = await asyncio.to_thread(ensemble.leader)
            await asyncio.to_thread(leader.kill)
            await counter.reach(before + 50)
            await asyncio.to_thread(leader.start)
        enough.set()
        await counting
        assert (await store.get("/n")).version == counter.done
        assert SessionEvent.NEW_SESSION not in log.seen
        assert store.session_id == session_id
        assert (await store.get("/e")).ephemeral_owner == session_id
        assert watch.seen == []
        await store.create("/comes")
        assert await watch.first() == ("/comes", WatchEvent.CREATED)
        await store.close()

    asyncio.run(story())
