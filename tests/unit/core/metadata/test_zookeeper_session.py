"""What becomes of operations, watches and ephemeral nodes when the wire or the session breaks."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from tailrace.core.errors import BadVersion, NoNode, OverCapacity, Unavailable
from tailrace.core.metadata import zookeeper_session
from tailrace.core.metadata.store import Create, Delete, SessionEvent, SetData, WatchEvent
from tailrace.core.metadata.zookeeper import ZookeeperStore
from tests.tcp_proxy import TcpProxy
from tests.unit.core.metadata.store_contract import WatchLog
from tests.zookeeper import ZooKeeperServer

pytestmark = pytest.mark.java

LOST, RESTORED, NEW_SESSION = SessionEvent.LOST, SessionEvent.RESTORED, SessionEvent.NEW_SESSION


class SessionLog:
    """What a listener heard, and a way to wait for more."""

    def __init__(self, store: ZookeeperStore) -> None:
        self.seen: list[SessionEvent] = []
        self._changed = asyncio.Event()
        store.on_session(self._hear)

    def _hear(self, event: SessionEvent) -> None:
        self.seen.append(event)
        self._changed.set()

    async def until(self, *events: SessionEvent) -> SessionEvent:
        async with asyncio.timeout(30):
            while not set(events) & set(self.seen):
                self._changed.clear()
                await self._changed.wait()
        return self.seen[-1]


@dataclass
class Wired:
    """A store behind a wire that can be cut, and another one beside it that stays connected."""

    store: ZookeeperStore
    other: ZookeeperStore
    proxy: TcpProxy
    log: SessionLog = field(init=False)

    def __post_init__(self) -> None:
        self.log = SessionLog(self.store)

    async def cut(self) -> None:
        await self.proxy.cut()
        await self.log.until(LOST)

    async def mend(self) -> None:
        await self.proxy.mend()
        await self.log.until(RESTORED)


@asynccontextmanager
async def wired(zookeeper: ZooKeeperServer, timeout_ms: int = 20_000) -> AsyncIterator[Wired]:
    root = await asyncio.to_thread(zookeeper.make_root)
    async with TcpProxy(zookeeper.port) as proxy:
        store = await ZookeeperStore.connect(
            proxy.hosts, chroot=root, session_timeout_ms=timeout_ms
        )
        other = await ZookeeperStore.connect(zookeeper.hosts, chroot=root)
        try:
            yield Wired(store, other, proxy)
        finally:
            await store.close()
            await other.close()


def run(story: Coroutine[Any, Any, None]) -> None:
    asyncio.run(story, debug=True)


async def expire(zookeeper: ZooKeeperServer, store: ZookeeperStore) -> None:
    link = store._session._link
    assert link is not None
    assert link.client_id is not None
    await asyncio.to_thread(zookeeper.expire, *link.client_id)


def test_nobody_there_is_unavailable() -> None:
    async def story() -> None:
        async with TcpProxy(1) as proxy:
            hosts = proxy.hosts
        with pytest.raises(Unavailable):
            await ZookeeperStore.connect(hosts, session_timeout_ms=300)

    run(story())


def test_server_that_swallows_connections_leaves_time_for_the_others(
    zookeeper: ZooKeeperServer,
) -> None:
    async def story() -> None:
        with deaf_port() as port:
            for _ in range(4):  # kazoo tries the servers in any order
                hosts = f"127.0.0.1:{port},{zookeeper.hosts}"
                store = await ZookeeperStore.connect(hosts, session_timeout_ms=2_000)
                await store.close()

    run(story())


@contextmanager
def deaf_port() -> Iterator[int]:
    """A port whose queue of connections is full: a further one hears nothing."""
    with ExitStack() as stack:
        listening = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(4):
            filler = stack.enter_context(socket.socket())
            filler.setblocking(False)
            filler.connect_ex(listening.getsockname())
        yield listening.getsockname()[1]


def test_expired_session_loses_its_nodes_and_watches_and_the_next_begins(
    zookeeper: ZooKeeperServer,
) -> None:
    async def story() -> None:
        async with wired(zookeeper) as at:
            watch = WatchLog()
            await at.store.create("/e", ephemeral=True)
            await at.store.create("/p")
            await at.store.get("/p", watch)
            await at.store.children("/p", watch)
            await at.store.exists("/none", watch)
            former = at.store.session_id
            await expire(zookeeper, at.store)
            await at.log.until(NEW_SESSION)
            assert at.log.seen == [LOST, NEW_SESSION]
            assert at.store.session_id not in (0, former)
            assert watch.seen == [
                ("/none", WatchEvent.SESSION_LOST),
                ("/p", WatchEvent.SESSION_LOST),
            ]
            await at.store.set("/p", b"x")
            await at.store.create("/e", ephemeral=True)
            assert len(watch.seen) == 2
            assert at.store.metrics.sessions_total == 2

    run(story())


@pytest.mark.parametrize(
    ("path", "kind", "change", "expected"),
    [
        ("/a", "get", lambda s: s.set("/a", b"1"), WatchEvent.CHANGED),
        ("/a", "get", lambda s: s.delete("/a"), WatchEvent.DELETED),
        ("/a", "exists", lambda s: s.set("/a", b"1"), WatchEvent.CHANGED),
        ("/b", "exists", lambda s: s.create("/b"), WatchEvent.CREATED),
        ("/a", "children", lambda s: s.create("/a/c"), WatchEvent.CHILDREN),
        ("/a", "children", lambda s: s.delete("/a"), WatchEvent.DELETED),
    ],
    ids=["changed", "deleted", "exists-changed", "created", "children", "parent-deleted"],
)
def test_change_that_a_cut_wire_hid_fires_its_watch_afterwards(
    zookeeper: ZooKeeperServer,
    path: str,
    kind: str,
    change: Callable[[ZookeeperStore], Coroutine[Any, Any, Any]],
    expected: WatchEvent,
) -> None:
    async def story() -> None:
        async with wired(zookeeper) as at:
            watch = WatchLog()
            await at.store.create("/a")
            await getattr(at.store, kind)(path, watch)
            await at.cut()
            await change(at.other)
            assert watch.seen == []
            await at.mend()
            assert await watch.first() == (path, expected)
            await at.store.get("/")
            assert len(watch.seen) == 1

    run(story())


def test_watch_survives_a_cut_wire_in_silence(zookeeper: ZooKeeperServer) -> None:
    async def story() -> None:
        async with wired(zookeeper) as at:
            data, absent, children = WatchLog(), WatchLog(), WatchLog()
            await at.store.create("/p", ephemeral=True)
            await at.store.create("/q")
            await at.store.get("/p", data)
            await at.store.exists("/p/none", absent)
            await at.store.children("/q", children)
            await at.cut()
            await at.mend()
            await at.store.get("/")
            assert data.seen + absent.seen + children.seen == []
            assert at.log.seen == [LOST, RESTORED]
            assert await at.other.exists("/p") is not None  # the session has lived on
            await at.other.set("/p", b"1")
            await at.other.create("/q/c")
            assert await data.first() == ("/p", WatchEvent.CHANGED)
            assert await children.first() == ("/q", WatchEvent.CHILDREN)

    run(story())


def test_write_without_an_answer_is_unavailable_and_may_have_happened(
    zookeeper: ZooKeeperServer,
) -> None:
    async def story() -> None:
        async with wired(zookeeper) as at:
            await at.store.create("/a")
            at.proxy.mute()
            write = asyncio.create_task(at.store.set("/a", b"1"))
            async with asyncio.timeout(10):
                await at.proxy.heard.wait()
            await at.cut()
            with pytest.raises(Unavailable, match="may have happened"):
                await write
            assert (await at.other.get("/a"))[:2] == (b"1", 1)
            await at.mend()
            assert (await at.store.get("/a")).data == b"1"

    run(story())


def test_sequential_ephemeral_without_an_answer_does_not_stay(zookeeper: ZooKeeperServer) -> None:
    async def story() -> None:
        async with wired(zookeeper) as at:
            await at.store.create("/q")
            kept = await at.store.create("/q/n-", ephemeral=True, sequential=True)
            theirs = await at.other.create("/q/n-", ephemeral=True, sequential=True)
            at.proxy.mute()
            create = asyncio.create_task(at.store.create("/q/n-", ephemeral=True, sequential=True))
            async with asyncio.timeout(10):
                await at.proxy.heard.wait()
            await at.cut()
            with pytest.raises(Unavailable):
                await create
            assert len(await at.other.children("/q")) == 3
            await at.mend()
            again = await at.store.create("/q/n-", ephemeral=True, sequential=True)
            names = [f"/q/{name}" for name in await at.store.children("/q")]
            assert names == [kept, theirs, again] == [f"/q/n-000000000{i}" for i in (0, 1, 3)]

    run(story())


def test_cancelled_sequential_ephemeral_does_not_stay(zookeeper: ZooKeeperServer) -> None:
    async def story() -> None:
        async with wired(zookeeper) as at:
            await at.store.create("/q")
            for turns in range(3):  # cancelled before it is sent, and on its way
                create = asyncio.create_task(
                    at.store.create("/q/n-", ephemeral=True, sequential=True)
                )
                for _ in range(turns):
                    await asyncio.sleep(0)
                create.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await create
            await at.store.get("/")
            last = await at.store.create("/q/n-", ephemeral=True, sequential=True)
            assert await at.store.children("/q") == [last.rpartition("/")[2]]

    run(story())


def test_sequential_ephemeral_whose_maker_left_with_the_answer_does_not_stay(
    zookeeper: ZooKeeperServer,
) -> None:
    """Its answer has come, and before its maker ran again, somebody cancelled it."""

    async def story() -> None:
        async with wired(zookeeper) as at:
            await at.store.create("/q")
            watch = WatchLog()
            await at.store.children("/q", watch)
            create = asyncio.create_task(at.store.create("/q/n-", ephemeral=True, sequential=True))
            at.store._names.on_made = lambda path: create.cancel()  # type: ignore[method-assign]
            with pytest.raises(asyncio.CancelledError):
                await create
            assert await watch.first() == ("/q", WatchEvent.CHILDREN)
            del at.store._names.on_made  # type: ignore[method-assign]
            last = await at.store.create("/q/n-", ephemeral=True, sequential=True)
            assert await at.store.children("/q") == [last.rpartition("/")[2]]

    run(story())


def test_operations_wait_in_line_for_the_next_connection(zookeeper: ZooKeeperServer) -> None:
    async def story() -> None:
        async with wired(zookeeper) as at:
            await at.store.create("/a")
            await at.cut()
            sets = [asyncio.create_task(at.store.set("/a", b"%d" % i)) for i in range(20)]
            await asyncio.sleep(0)
            assert at.store.metrics.waiting == 20
            await at.mend()
            assert [await task for task in sets] == list(range(1, 21))
            assert (await at.other.get("/a")).data == b"19"
            assert at.store.metrics.waiting == 0

    run(story())


def test_operation_is_given_up_after_a_session_timeout_and_never_sent(
    zookeeper: ZooKeeperServer,
) -> None:
    async def story() -> None:
        async with wired(zookeeper, timeout_ms=1_000) as at:
            await at.store.create("/a")
            await at.cut()
            with pytest.raises(Unavailable, match="did not answer within 1000 ms"):
                await at.store.set("/a", b"1")
            assert at.store.metrics.waiting == 0
            await at.proxy.mend()
            await at.log.until(RESTORED, NEW_SESSION)
            assert (await at.store.get("/a"))[:2] == (b"", 0)

    run(story())


def test_too_many_waiting_operations_are_refused(
    zookeeper: ZooKeeperServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        async with wired(zookeeper) as at:
            monkeypatch.setattr(zookeeper_session, "WAITING_MAX", 2)
            await at.cut()
            waiting = [asyncio.create_task(at.store.get("/")) for _ in range(2)]
            await asyncio.sleep(0)
            with pytest.raises(OverCapacity):
                await at.store.get("/")
            assert at.store.metrics.refusals_total == 1
            await at.mend()
            for task in waiting:
                await task

    run(story())


def test_close_with_a_cut_wire_ends_and_fails_who_waits(zookeeper: ZooKeeperServer) -> None:
    async def story() -> None:
        async with wired(zookeeper, timeout_ms=1_000) as at:
            await at.cut()
            waiting = asyncio.create_task(at.store.get("/"))
            await asyncio.sleep(0)
            async with asyncio.timeout(10):
                await at.store.close()
            with pytest.raises(Unavailable, match="closed"):
                await waiting

    run(story())


def test_nonsense_from_the_server_costs_the_session_not_the_store(
    zookeeper: ZooKeeperServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        async with wired(zookeeper) as at:
            monkeypatch.setattr(zookeeper_session, "RESTART_DELAY_S", 0.05)
            watch = WatchLog()
            await at.store.get("/", watch)
            # An answer to a request that was never made: 16 bytes of header with transaction 99.
            at.proxy.garbage = bytes([0, 0, 0, 16, 0, 0, 0, 99]) + bytes(12)
            with pytest.raises(Unavailable):
                await at.store.get("/")
            at.proxy.garbage = b""
            await at.log.until(NEW_SESSION)
            assert watch.seen == [("/", WatchEvent.SESSION_LOST)]
            await at.store.get("/")

    run(story())


def test_paused_server_is_waited_for_and_its_word_on_the_session_counts(
    own_zookeeper: ZooKeeperServer,
) -> None:
    async def story() -> None:
        async with wired(own_zookeeper, timeout_ms=1_000) as at:
            await at.store.create("/e", ephemeral=True)
            former = at.store.session_id
            own_zookeeper.pause()
            await at.log.until(LOST)
            own_zookeeper.resume()
            lives_on = await at.log.until(RESTORED, NEW_SESSION) is RESTORED
            assert (at.store.session_id == former) == lives_on
            assert (await at.store.exists("/e") is not None) == lives_on

    run(story())


def test_racing_clients_lose_no_update(zookeeper: ZooKeeperServer) -> None:
    async def count(store: ZookeeperStore, times: int) -> None:
        for _ in range(times):
            while True:
                node = await store.get("/n")
                try:
                    await store.set("/n", b"%d" % (int(node.data) + 1), node.version)
                except BadVersion:
                    continue
                break

    async def story() -> None:
        async with wired(zookeeper) as at:
            await at.store.create("/n", b"0")
            async with asyncio.TaskGroup() as group:
                group.create_task(count(at.store, 50))
                group.create_task(count(at.other, 50))
            node = await at.store.get("/n")
            assert (node.data, node.version) == (b"100", 100)

    run(story())


@pytest.mark.crash
def test_killed_server_keeps_whole_multis_and_every_answered_one(
    own_zookeeper: ZooKeeperServer,
) -> None:
    async def write(store: ZookeeperStore, answered: list[int], enough: asyncio.Event) -> None:
        for number in range(1_000_000):
            try:
                await store.multi(
                    [
                        Create(f"/left/{number}"),
                        Create(f"/right/{number}"),
                        SetData("/last", b"%d" % number),
                        *([Delete(f"/left/{number - 3}")] if number >= 3 else []),
                    ]
                )
            except Unavailable:
                return
            answered.append(number)
            if number == 50:
                enough.set()

    async def story() -> None:
        async with wired(own_zookeeper, timeout_ms=10_000) as at:
            for path in ("/left", "/right", "/last"):
                await at.store.create(path)
            answered: list[int] = []
            enough = asyncio.Event()
            writer = asyncio.create_task(write(at.store, answered, enough))
            async with asyncio.timeout(60):
                await enough.wait()
            await asyncio.to_thread(own_zookeeper.kill)
            await writer
            await asyncio.to_thread(own_zookeeper.start)
            last = int((await at.other.get("/last")).data)
            assert last in (answered[-1], answered[-1] + 1)
            assert len(await at.other.children("/right")) == last + 1
            left = sorted(map(int, await at.other.children("/left")))
            assert left == list(range(last - 2, last + 1))
            with pytest.raises(NoNode):
                await at.other.get(f"/left/{last - 3}")

    run(story())


@pytest.mark.parametrize(("asked_ms", "granted_ms"), [(100, 400), (1_000, 1_000), (10**6, 60_000)])
def test_a_store_knows_what_session_it_was_granted(
    zookeeper: ZooKeeperServer, asked_ms: int, granted_ms: int
) -> None:
    async def story() -> None:
        store = await ZookeeperStore.connect(
            zookeeper.hosts, session_timeout_ms=asked_ms, answer_within_ms=20_000
        )
        assert store.session_timeout_ms == granted_ms
        await store.close()

    run(story())
