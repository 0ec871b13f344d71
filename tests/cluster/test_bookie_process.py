"""Bookies as processes of a cluster whose metadata is in ZooKeeper, from the command line."""

import asyncio
import json
import shutil
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tailrace.bookie.cookie import parse_cookie
from tailrace.core.errors import CoreError
from tailrace.core.ledger.bookie_registry import RegisteredBookies
from tailrace.core.ledger.client import LedgerClient
from tailrace.core.ledger.config import LedgerClientConfig, LedgerConfig
from tailrace.core.metadata.bookie_service_info import (
    FRAME_BYTES_MAX,
    decode_service_info,
    rpc_service_info,
)
from tailrace.core.metadata.layout import LedgerPaths
from tailrace.core.metadata.store import WatchEvent
from tailrace.core.metadata.zookeeper import ZookeeperStore
from tailrace.protocol.bookkeeper.entry import FRAME_BYTES_LIMIT
from tailrace.protocol.ids import BookieId, LedgerId
from tests.bookie_process import BookieUnderTest
from tests.cluster.cli import output, tailrace
from tests.zookeeper import ZooKeeperServer

pytestmark = [pytest.mark.java, pytest.mark.timeout(240)]

SESSION_MS = 2_000
E3_QW3_QA2 = LedgerConfig(ensemble_size=3, write_quorum=3, ack_quorum=2)


@dataclass
class ClusterUnderTest:
    """A cluster that was begun by the command line, and its bookies."""

    zookeeper: ZooKeeperServer
    root: str
    folder: Path
    bookies: list[BookieUnderTest]

    @property
    def uri(self) -> str:
        return f"zk://{self.zookeeper.hosts}{self.root}"

    @property
    def paths(self) -> LedgerPaths:
        return LedgerPaths(self.root)

    def bookie(self, name: str, **options: Any) -> BookieUnderTest:
        made = BookieUnderTest(
            self.uri, self.folder / name, "--set", f"zkTimeout={SESSION_MS}", **options
        )
        self.bookies.append(made)
        return made


@pytest.fixture
def cluster(zookeeper: ZooKeeperServer, tmp_path: Path) -> Iterator[ClusterUnderTest]:
    made = ClusterUnderTest(zookeeper, zookeeper.make_root() + "/ledgers", tmp_path, [])
    assert tailrace("cluster", "init", "--metadata", made.uri).returncode == 0
    yield made
    for bookie in made.bookies:
        bookie.close()


@dataclass
class Client:
    """A process beside the bookies that writes and reads ledgers."""

    store: ZookeeperStore
    ledgers: LedgerClient
    registry: RegisteredBookies


@asynccontextmanager
async def client(cluster: ClusterUnderTest) -> AsyncIterator[Client]:
    store = await ZookeeperStore.connect(cluster.zookeeper.hosts)
    registry = RegisteredBookies(store, root=cluster.root)
    config = LedgerClientConfig(root=cluster.root)
    try:
        yield Client(store, LedgerClient(store, registry, config, Random(1)), registry)
    finally:
        await registry.close()
        await store.close()


class Confirmed:
    """How far a ledger is confirmed."""

    def __init__(self) -> None:
        self.lac = -1
        self.errors: list[CoreError] = []
        self._moved = asyncio.Event()

    def on_confirmed(self, lac: int) -> None:
        self.lac = lac
        self._moved.set()

    def on_failed(self, error: CoreError) -> None:
        self.errors.append(error)
        self._moved.set()

    async def reach(self, lac: int) -> None:
        async with asyncio.timeout(60):
            while self.lac < lac:
                assert not self.errors
                self._moved.clear()
                await self._moved.wait()


async def write(ledgers: LedgerClient, count: int) -> LedgerId:
    confirmed = Confirmed()
    writer = await ledgers.create_ledger(E3_QW3_QA2, confirmed)
    for number in range(count):
        writer.add((payload(number),))
    await confirmed.reach(count - 1)
    await writer.close()
    return writer.ledger_id


async def check(ledgers: LedgerClient, ledger_id: LedgerId, count: int) -> None:
    reader = await ledgers.open_ledger(ledger_id, recover=True)
    entries = await reader.read(0, count - 1)
    assert [bytes(entry.payload) for entry in entries] == [payload(n) for n in range(count)]


def payload(number: int) -> bytes:
    return b"%d:" % number + bytes(100)


def run(story: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(story())


async def watched(
    store: ZookeeperStore, path: str, right: Callable[[int | None], bool], within_s: float = 60
) -> int | None:
    """Wait until a node's owner (None: no node) is right, and return it."""
    changed = asyncio.Event()

    def fired(_path: str, _event: WatchEvent) -> None:
        changed.set()

    async with asyncio.timeout(within_s):
        while True:
            node = await store.exists(path, fired)
            owner = None if node is None else node.ephemeral_owner
            if right(owner):
                return owner
            await changed.wait()
            changed.clear()


def test_three_bookies_register_keep_a_ledger_and_survive_kill_nine(
    cluster: ClusterUnderTest,
) -> None:
    bookies = [cluster.bookie(f"b{i}").start() for i in range(3)]

    async def story() -> None:
        async with client(cluster) as at:
            instance_id = (await at.store.get(cluster.paths.instance_id)).data.decode()
            for bookie in bookies:
                bookie_id = BookieId(bookie.bookie_id)
                node = await at.store.get(cluster.paths.bookie(bookie_id))
                info = decode_service_info(node.data, bookie_id)
                assert info.endpoints == rpc_service_info("127.0.0.1", bookie.port).endpoints
                assert info.properties == {FRAME_BYTES_MAX: str(FRAME_BYTES_LIMIT)}
                cookie = parse_cookie((await at.store.get(cluster.paths.cookie(bookie_id))).data)
                assert (cookie.bookie_id, cookie.instance_id) == (bookie_id, instance_id)
            written = await write(at.ledgers, 300)
            await check(at.ledgers, written, 300)

            victim = bookies[0]
            path = cluster.paths.bookie(BookieId(victim.bookie_id))
            former = (await at.store.get(path)).ephemeral_owner
            await asyncio.to_thread(victim.kill)
            # Its trace is still registered: the next start waits until ZooKeeper drops it.
            await asyncio.to_thread(victim.start)
            assert (await at.store.get(path)).ephemeral_owner != former
        async with client(cluster) as at:
            await check(at.ledgers, written, 300)
            again = await write(at.ledgers, 50)
            await check(at.ledgers, again, 50)

    run(story)
    shown = json.loads(output("cluster", "show", "--metadata", cluster.uri, "--json"))
    assert shown["writable"] == sorted(bookie.bookie_id for bookie in bookies)
    assert shown["cookies"] == shown["writable"]
    for bookie in bookies:
        assert bookie.stop() == 0
    shown = json.loads(output("cluster", "show", "--metadata", cluster.uri, "--json"))
    assert (shown["writable"], shown["read_only"]) == ([], [])


def test_expired_session_is_followed_by_a_new_registration(cluster: ClusterUnderTest) -> None:
    bookie = cluster.bookie("b").start()
    path = cluster.paths.bookie(BookieId(bookie.bookie_id))

    async def story() -> None:
        async with client(cluster) as at:
            former = (await at.store.get(path)).ephemeral_owner
            bookie.pause()
            await watched(at.store, path, lambda owner: owner is None)
            bookie.resume()
            found = await watched(at.store, path, lambda owner: owner is not None)
            assert found != former

    run(story)
    assert bookie.is_running
    assert bookie.stop() == 0


def test_bookie_serves_on_while_zookeeper_is_away_and_is_found_again(
    own_zookeeper: ZooKeeperServer, tmp_path: Path
) -> None:
    cluster = ClusterUnderTest(own_zookeeper, "/ledgers", tmp_path, [])
    assert tailrace("cluster", "init", "--metadata", cluster.uri).returncode == 0
    bookie = cluster.bookie("b").start()
    path = cluster.paths.bookie(BookieId(bookie.bookie_id))
    single = LedgerConfig(ensemble_size=1, write_quorum=1, ack_quorum=1)

    async def story() -> None:
        async with client(cluster) as at:
            confirmed = Confirmed()
            writer = await at.ledgers.create_ledger(single, confirmed)
            writer.add((payload(0),))
            await confirmed.reach(0)
            await asyncio.to_thread(own_zookeeper.kill)
            writer.add((payload(1),))
            await confirmed.reach(1)
            await asyncio.to_thread(own_zookeeper.start)
            await watched(at.store, path, lambda owner: owner is not None)
            await writer.close()
            await check(at.ledgers, writer.ledger_id, 2)

    try:
        run(story)
        assert bookie.stop() == 0
    finally:
        bookie.close()


def test_second_process_with_the_id_of_a_living_one_is_refused(cluster: ClusterUnderTest) -> None:
    first = BookieUnderTest(cluster.uri, cluster.folder / "a", "--set", "bookieId=same")
    second = BookieUnderTest(cluster.uri, cluster.folder / "b", "--set", "bookieId=same")
    cluster.bookies += [first, second]
    first.bookie_id = "same"
    first.start()
    # Its cookie alone says so: the id has its data elsewhere.
    assert "was its disk lost" in second.refused()
    shutil.copytree(cluster.folder / "a", cluster.folder / "c")
    copied = BookieUnderTest(
        cluster.uri, cluster.folder / "c", "--set", "bookieId=same", "--set", "zkTimeout=500"
    )
    assert "another process runs as same" in copied.refused()
    assert first.stop() == 0


def test_start_that_waits_for_a_former_session_can_be_ended(cluster: ClusterUnderTest) -> None:
    first = BookieUnderTest(cluster.uri, cluster.folder / "a", "--set", "bookieId=same")
    first.bookie_id = "same"
    cluster.bookies.append(first.start())
    shutil.copytree(cluster.folder / "a", cluster.folder / "b")
    # Its wait is 120 s, and the time that a stop may take 30 s.
    second = BookieUnderTest(
        cluster.uri, cluster.folder / "b", "--set", "bookieId=same", "--set", "zkTimeout=60000"
    )
    cluster.bookies.append(second)
    second.launch()
    second.wait_for("name_waited_for")
    assert second.stop() == 0
    assert "ready:" not in second.output
    assert first.stop() == 0


def test_bookie_of_another_cluster_is_refused(cluster: ClusterUnderTest) -> None:
    bookie = cluster.bookie("b").start()
    assert bookie.stop() == 0
    formatted = tailrace("cluster", "format", "--metadata", cluster.uri, "--force")
    assert formatted.returncode == 0
    text = bookie.refused()
    assert "belongs to bookie" in text
    assert "the files in" in text


def test_bookie_without_its_cookie_in_the_metadata_is_refused(cluster: ClusterUnderTest) -> None:
    bookie = cluster.bookie("b").start()
    assert bookie.stop() == 0

    async def story() -> None:
        async with client(cluster) as at:
            await at.store.delete(cluster.paths.cookie(BookieId(bookie.bookie_id)))

    run(story)
    assert "which the metadata does not know" in bookie.refused()


def test_bookie_that_lost_its_disk_is_refused(cluster: ClusterUnderTest) -> None:
    bookie = cluster.bookie("b").start()
    assert bookie.stop() == 0
    shutil.rmtree(bookie.data)
    assert "was its disk lost" in bookie.refused()


def test_bookie_without_a_cluster_says_how_to_begin_one(
    zookeeper: ZooKeeperServer, tmp_path: Path
) -> None:
    uri = f"zk://{zookeeper.hosts}{zookeeper.make_root()}/ledgers"
    text = BookieUnderTest(uri, tmp_path / "b").refused()
    assert "there is no cluster" in text
    assert f"tailrace cluster init --metadata {uri}" in text


def test_cluster_is_begun_once_and_nuked_only_when_nobody_runs(cluster: ClusterUnderTest) -> None:
    again = tailrace("cluster", "init", "--metadata", cluster.uri)
    assert again.returncode == 1
    assert b"holds cluster" in again.stderr
    bookie = cluster.bookie("b").start()
    for command in (("nuke", "--force"), ("format", "--force")):
        refused = tailrace("cluster", *command, "--metadata", cluster.uri)
        assert refused.returncode == 1
        assert bookie.bookie_id.encode() in refused.stderr
    assert bookie.stop() == 0
    unsure = tailrace("cluster", "nuke", "--metadata", cluster.uri, stdin=b"no\n")
    assert unsure.returncode == 1
    instance_id = json.loads(output("cluster", "show", "--metadata", cluster.uri, "--json"))[
        "instance_id"
    ]
    wrong = tailrace("cluster", "nuke", "--metadata", cluster.uri, "--instance-id", "other")
    assert wrong.returncode == 1
    done = tailrace("cluster", "nuke", "--metadata", cluster.uri, "--instance-id", instance_id)
    assert done.returncode == 0
    assert tailrace("cluster", "show", "--metadata", cluster.uri).returncode == 1


def test_nobody_answers_at_the_metadata() -> None:
    refused = tailrace("cluster", "show", "--metadata", "zk://127.0.0.1:1/ledgers")
    assert refused.returncode == 3
    assert b"is ZooKeeper running there?" in refused.stderr
