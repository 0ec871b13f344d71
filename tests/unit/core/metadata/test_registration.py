import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, NamedTuple, cast

import pytest

from tailrace.core.errors import NodeExists, NoNode, Unavailable
from tailrace.core.metadata.bookie_service_info import decode_service_info, rpc_service_info
from tailrace.core.metadata.layout import LedgerPaths
from tailrace.core.metadata.registration import BookieRegistration
from tailrace.core.metadata.store import MetadataStore, SessionEvent, WatchEvent
from tailrace.core.metadata.zookeeper import ZookeeperStore
from tailrace.protocol.ids import BookieId
from tests.unit.core.metadata.fickle_store import Fickle
from tests.unit.core.metadata.test_zookeeper_session import SessionLog, expire
from tests.zookeeper import ZooKeeperServer

pytestmark = pytest.mark.java

B1 = BookieId("b1:3181")
INFO = rpc_service_info("b1", 3181)
PATHS = LedgerPaths("/l")
WRITABLE, READ_ONLY = PATHS.bookie(B1), PATHS.read_only_bookie(B1)


class Cluster(NamedTuple):
    store: ZookeeperStore
    other: ZookeeperStore

    def registration(
        self,
        store: ZookeeperStore | None = None,
        *,
        stale_wait_ms: int = 10_000,
        on_refused: Callable[[NodeExists], None] | None = None,
    ) -> BookieRegistration:
        return BookieRegistration(
            store or self.store,
            PATHS,
            B1,
            INFO,
            stale_wait_ms=stale_wait_ms,
            on_refused=on_refused,
        )

    async def registered(self) -> tuple[bool, bool]:
        """(as writable, as read-only)."""
        nodes = [await self.other.exists(path) for path in (WRITABLE, READ_ONLY)]
        return nodes[0] is not None, nodes[1] is not None

    async def appeared(self, path: str) -> None:
        """Wait until a node is there."""
        changed = asyncio.Event()

        def fired(_path: str, _event: WatchEvent) -> None:
            changed.set()

        async with asyncio.timeout(30):
            while await self.other.exists(path, fired) is None:
                await changed.wait()
                changed.clear()


@asynccontextmanager
async def cluster(zookeeper: ZooKeeperServer) -> AsyncIterator[Cluster]:
    root = await asyncio.to_thread(zookeeper.make_root)
    store = await ZookeeperStore.connect(zookeeper.hosts, chroot=root)
    other = await ZookeeperStore.connect(zookeeper.hosts, chroot=root)
    await other.create("/l/available", parents=True)
    try:
        yield Cluster(store, other)
    finally:
        await store.close()
        await other.close()


def run(story: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(story(), debug=True)


def test_bookie_is_found_until_it_signs_off(zookeeper: ZooKeeperServer) -> None:
    async def story() -> None:
        async with cluster(zookeeper) as at:
            registration = at.registration()
            await registration.register(read_only=False)
            node = await at.other.get(WRITABLE)
            assert node.ephemeral_owner == at.store.session_id
            assert decode_service_info(node.data, B1) == INFO
            assert registration.metrics.registered == 1
            await registration.close()
            assert await at.registered() == (False, False)
            await registration.close()

    run(story)


def test_change_of_mode_never_leaves_the_bookie_unregistered(zookeeper: ZooKeeperServer) -> None:
    async def story() -> None:
        async with cluster(zookeeper) as at:
            registration = at.registration()
            await registration.register(read_only=False)
            seen: list[tuple[bool, bool]] = []

            async def look() -> None:
                while True:
                    # One read after the other: what is missing in both was missing in between.
                    first = await at.other.exists(READ_ONLY) is not None
                    second = await at.other.exists(WRITABLE) is not None
                    third = await at.other.exists(READ_ONLY) is not None
                    seen.append((first or third, second))

            looking = asyncio.create_task(look())
            for _ in range(10):
                await registration.set_read_only(True)
                assert await at.registered() == (False, True)
                await registration.set_read_only(True)
                await registration.set_read_only(False)
                assert await at.registered() == (True, False)
            looking.cancel()
            await asyncio.wait([looking])
            assert (False, False) not in seen
            await registration.close()

    run(story)


@pytest.mark.parametrize("read_only", [False, True], ids=["writable", "read-only"])
def test_new_session_registers_again_in_the_same_mode(
    zookeeper: ZooKeeperServer, read_only: bool
) -> None:
    async def story() -> None:
        async with cluster(zookeeper) as at:
            registration = at.registration()
            await registration.register(read_only=False)
            await registration.set_read_only(read_only)
            log = SessionLog(at.store)
            await expire(zookeeper, at.store)
            await log.until(SessionEvent.NEW_SESSION)
            await at.appeared(READ_ONLY if read_only else WRITABLE)
            assert await at.registered() == (not read_only, read_only)
            node = await at.other.get(READ_ONLY if read_only else WRITABLE)
            assert node.ephemeral_owner == at.store.session_id
            await registration.close()
            assert await at.registered() == (False, False)

    run(story)


def test_trace_of_a_killed_process_is_waited_out(zookeeper: ZooKeeperServer) -> None:
    async def story() -> None:
        async with cluster(zookeeper) as at:
            await at.other.create(WRITABLE, b"", ephemeral=True)
            registration = at.registration()
            registering = asyncio.create_task(registration.register(read_only=False))
            while not at.store.metrics.watches:
                await at.store.get("/")
            assert not registering.done()
            await expire(zookeeper, at.other)  # as ZooKeeper does when it hears no more
            await registering
            assert (await at.store.get(WRITABLE)).ephemeral_owner == at.store.session_id
            await registration.close()

    run(story)


def test_living_process_with_the_same_id_is_refused(zookeeper: ZooKeeperServer) -> None:
    async def story() -> None:
        async with cluster(zookeeper) as at:
            first, second = at.registration(at.other), at.registration(stale_wait_ms=300)
            await first.register(read_only=False)
            with pytest.raises(NodeExists, match="another process runs as b1:3181"):
                await second.register(read_only=False)
            await second.close()
            assert await at.registered() == (True, False)
            await first.close()

    run(story)


def test_id_that_another_process_took_meanwhile_is_told(zookeeper: ZooKeeperServer) -> None:
    async def story() -> None:
        async with cluster(zookeeper) as at:
            refused: asyncio.Future[NodeExists] = asyncio.get_running_loop().create_future()
            mine = at.registration(stale_wait_ms=300, on_refused=refused.set_result)
            await mine.register(read_only=False)
            theirs = at.registration(at.other)
            taking = asyncio.create_task(theirs.register(read_only=False))
            while not at.other.metrics.watches:
                await at.other.get("/")
            # They create as soon as the node goes; this session must first connect again.
            await expire(zookeeper, at.store)
            await taking
            async with asyncio.timeout(30):
                await refused
            await mine.close()
            assert (await at.other.get(WRITABLE)).ephemeral_owner == at.other.session_id
            await theirs.close()

    run(story)


def test_own_node_with_other_data_is_set_right(zookeeper: ZooKeeperServer) -> None:
    async def story() -> None:
        async with cluster(zookeeper) as at:
            await at.store.create(WRITABLE, b"", ephemeral=True)  # a create whose answer was lost
            registration = at.registration()
            await registration.register(read_only=False)
            assert decode_service_info((await at.other.get(WRITABLE)).data, B1) == INFO
            await registration.close()

    run(story)


def test_no_cluster_there_is_told(zookeeper: ZooKeeperServer) -> None:
    async def story() -> None:
        async with cluster(zookeeper) as at:
            await at.other.delete("/l/available")
            registration = at.registration()
            with pytest.raises(NoNode):
                await registration.register(read_only=False)
            await registration.close()

    run(story)


def test_change_of_mode_that_failed_follows_by_itself(
    zookeeper: ZooKeeperServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        async with cluster(zookeeper) as at:
            registration = at.registration()
            await registration.register(read_only=False)
            fail_creates(at.store, monkeypatch, times=3)
            with pytest.raises(Unavailable):
                await registration.set_read_only(True)
            await at.appeared(READ_ONLY)
            await registration.close()
            assert await at.registered() == (False, False)

    run(story)


def fail_creates(store: ZookeeperStore, monkeypatch: pytest.MonkeyPatch, times: int) -> None:
    real, failing = store.create, times

    async def create(*arguments: Any, **options: Any) -> str:
        nonlocal failing
        if failing:
            failing -= 1
            raise Unavailable("no answer")
        return await real(*arguments, **options)

    monkeypatch.setattr(store, "create", create)


def test_registering_again_goes_on_until_the_store_takes_it(
    zookeeper: ZooKeeperServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        async with cluster(zookeeper) as at:
            registration = at.registration()
            await registration.register(read_only=False)
            fail_creates(at.store, monkeypatch, times=3)
            log = SessionLog(at.store)
            await expire(zookeeper, at.store)
            await log.until(SessionEvent.NEW_SESSION)
            await at.appeared(WRITABLE)
            assert registration.metrics.failures_total == 3
            await registration.close()

    run(story)
    assert "task=registration.again" in caplog.text


def test_a_session_that_ends_while_the_node_is_made_costs_it_nothing() -> None:
    async def story() -> None:
        store = Fickle(0)
        at = cast("MetadataStore", store)
        registration = BookieRegistration(at, PATHS, B1, INFO)
        await registration.register(read_only=False)
        store._ends = 2
        store.end_session()
        for _ in range(10):
            await asyncio.sleep(0)
        assert store.owner == store.session_id
        assert registration.metrics.registered == 1
        await registration._tasks.close()

    asyncio.run(story())
