"""A bookie process gives up what others keep, over a real ZooKeeper, also if it is killed at it."""

import asyncio
import json
import random
import time
import urllib.request
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient

from tailrace.core.ledger.bookie_client import ask
from tailrace.core.ledger.bookie_registry import RegisteredBookies
from tailrace.core.ledger.outcomes import ABSENT
from tailrace.core.metadata.layout import LedgerPaths, UnderreplicationPaths
from tailrace.core.metadata.ledger_metadata import Fragment, LedgerMetadata, encode_ledger
from tailrace.core.metadata.store import MetadataStore
from tailrace.core.metadata.underreplication import LAYOUT_BYTES, encode_lock
from tailrace.core.metadata.uri import open_store
from tailrace.protocol.bookkeeper.messages import StatusCode
from tailrace.protocol.ids import BookieId, LedgerId
from tests.bookie_process import BookieUnderTest
from tests.cluster.cli import output, parsed
from tests.cluster.recovering import stored_ledgers
from tests.cluster.several_brokers import until
from tests.cluster.three_bookies import SESSION_MS
from tests.unit.bookie.world import DIGEST, add, entry_body, read
from tests.zookeeper import ZooKeeperServer

ENTRIES = range(3)
EOK = StatusCode.EOK
ELSEWHERE = BookieId("elsewhere:1")
SETTINGS = (
    f"zkTimeout={SESSION_MS}", "flushInterval=100", "httpServerEnabled=true", "httpServerPort=0",
)  # fmt: skip


class World:
    """One bookie of a cluster whose other bookies exist in the metadata only."""

    def __init__(self, zookeeper: ZooKeeperServer, folder: Path) -> None:
        self.root = f"{zookeeper.make_root()}/ledgers"
        self.uri = f"zk://{zookeeper.hosts}{self.root}"
        self.paths = LedgerPaths(self.root)
        self.folder = folder
        output("cluster", "init", "--metadata", self.uri)
        self.bookie = self.make_bookie()

    def make_bookie(self, *settings: str, port: int = 0) -> BookieUnderTest:
        arguments = [part for each in (*SETTINGS, *settings) for part in ("--set", each)]
        return BookieUnderTest(self.uri, self.folder / "bookie", *arguments, port=port)

    def collect(self) -> None:
        """Have the bookie collect garbage now."""
        (row,) = parsed("bookie", "list", "-m", self.uri)
        url = f"http://{row['http']}/api/v1/bookie/gc"
        request = urllib.request.Request(url, method="PUT")
        with urllib.request.urlopen(request, timeout=60) as answer:
            assert answer.status == 200, json.loads(answer.read())

    def fill(self, ledgers: range, keeper: BookieId) -> None:
        """Store entries of closed ledgers, which the metadata says that `keeper` has."""
        data = encode_ledger(
            LedgerMetadata(
                ensemble_size=1,
                write_quorum=1,
                ack_quorum=1,
                fragments=(Fragment(0, (keeper,)),),
                digest=DIGEST.type,
            ).closed(ENTRIES[-1], 300)
        )

        async def work(store: MetadataStore, bookies: RegisteredBookies) -> None:
            client = bookies.client(BookieId(self.bookie.bookie_id))
            for ledger_id in map(LedgerId, ledgers):
                for entry_id in ENTRIES:
                    answer = await ask(client, add(ledger_id, entry_id, bytes(100)))
                    assert answer.status is EOK
                await store.create(self.paths.ledger(ledger_id), data, parents=True)

        self._run(work)
        until(lambda: set(ledgers) <= stored_ledgers(self.bookie))

    def entries(self, ledgers: range) -> dict[int, list[bytes]]:
        """Return the bodies of all entries that are there, by ledger; no ledger without any."""

        async def work(
            _: MetadataStore, bookies: RegisteredBookies
        ) -> list[tuple[LedgerId, list[bytes]]]:
            client = bookies.client(BookieId(self.bookie.bookie_id))
            found = []
            for ledger_id in map(LedgerId, ledgers):
                answers: list[Any] = [await ask(client, read(ledger_id, at)) for at in ENTRIES]
                assert {answer.status for answer in answers} <= {EOK, *ABSENT}
                bodies = [bytes(each.body) for each in answers if each.status is EOK]
                found.append((ledger_id, bodies))
            return found

        return {ledger_id: bodies for ledger_id, bodies in self._run(work) if bodies}

    def _run(
        self, work: Callable[[MetadataStore, RegisteredBookies], Coroutine[Any, Any, Any]]
    ) -> Any:
        async def story() -> Any:
            store = await open_store(self.uri)
            bookies = RegisteredBookies(store, root=self.root)
            try:
                async with asyncio.timeout(60):
                    return await work(store, bookies)
            finally:
                await bookies.close()
                await store.close()

        return asyncio.run(story())


def whole(ledgers: range) -> dict[int, list[bytes]]:
    return {
        number: [entry_body(LedgerId(number), at, bytes(100)) for at in ENTRIES]
        for number in ledgers
    }


@pytest.fixture
def world(zookeeper: ZooKeeperServer, tmp_path: Path) -> Iterator[World]:
    made = World(zookeeper, tmp_path)
    yield made
    made.bookie.close()


def test_a_lock_keeps_a_ledger_as_long_as_its_session(
    world: World, zookeeper: ZooKeeperServer
) -> None:
    world.bookie.start()
    world.fill(range(1, 3), ELSEWHERE)
    marks = UnderreplicationPaths(world.root)
    worker = KazooClient(zookeeper.hosts)
    worker.start(30)
    worker.create(marks.layout, LAYOUT_BYTES, makepath=True)
    worker.ensure_path(marks.locks)
    worker.create(marks.lock(LedgerId(1)), encode_lock("worker"), ephemeral=True)
    world.collect()
    assert world.entries(range(1, 3)) == whole(range(1, 2))
    assert worker.get_children(marks.locks) == ["urL0000000001"]
    worker.stop()
    worker.close()
    world.collect()
    assert world.entries(range(1, 3)) == {}


@pytest.mark.crash
@pytest.mark.slow
def test_killed_while_it_gives_up(world: World) -> None:
    """What others keep goes in the end, what it must keep stays, and nothing stays locked."""
    seed = random.SystemRandom().randrange(1 << 32)
    moments = random.Random(seed)
    gone, kept = range(1, 301), range(301, 321)
    bookie = world.bookie.start()
    world.fill(gone, ELSEWHERE)
    world.fill(kept, BookieId(bookie.bookie_id))
    assert bookie.stop() == 0
    quick = ("gcWaitTime=50", "gcOverreplicatedLedgerWaitTime=50")
    slowly = "gcOverreplicatedLedgerMaxConcurrentRequests=2"
    world.bookie = world.make_bookie(*quick, slowly, port=bookie.port)
    cut = 0
    while (there := stored_ledgers(world.bookie)) & set(gone):
        world.bookie.start()
        if not cut:  # a life may be too short for any, or long enough for all
            until(lambda: stored_ledgers(world.bookie) < there)
        else:
            time.sleep(moments.random() * 0.3)  # the random moment itself, not a synchronisation
        world.bookie.kill()
        left = stored_ledgers(world.bookie)
        assert set(kept) <= left, f"seed {seed}"
        cut += 0 < len(left & set(gone)) < len(gone)
    world.bookie.start()
    until(lambda: not world.entries(gone))  # a start may find some in the tail of the logs
    assert world.entries(kept) == whole(kept), f"seed {seed}"
    assert cut, f"it was never killed in the middle of it, seed {seed}"
