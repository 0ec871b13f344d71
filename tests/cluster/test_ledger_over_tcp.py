"""Ledgers on real bookies over TCP: write, kill -9, restart, recover, read."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tailrace.core.errors import CoreError, LedgerFenced, OverCapacity
from tailrace.core.ledger.bookie_client import BookieClient
from tailrace.core.ledger.client import LedgerClient
from tailrace.core.ledger.config import (
    BookieClientConfig,
    LedgerClientConfig,
    LedgerConfig,
    ReadConfig,
)
from tailrace.core.ledger.read_order import Standing
from tailrace.core.ledger.tcp_bookie import TcpBookieClient
from tailrace.core.ledger.writer import LedgerWriter
from tailrace.core.metadata.ledger_tree import initialize_layout
from tailrace.core.metadata.network_location import NetworkLocation
from tailrace.core.metadata.sqlite import SqliteStore
from tailrace.core.runtime.clock import SystemClock
from tailrace.protocol.ids import BookieId, LedgerId

pytestmark = pytest.mark.crash

ROOT = Path(__file__).parents[2]
NEVER = 2**62
SINGLE = LedgerConfig(unconfirmed_entries_max=200)
REPLICATED = LedgerConfig(
    ensemble_size=3, write_quorum=3, ack_quorum=2, unconfirmed_entries_max=200
)
STRIPED = LedgerConfig(ensemble_size=3, write_quorum=2, ack_quorum=1, unconfirmed_entries_max=2000)
CHILD = """
import asyncio, sys
from pathlib import Path
from tailrace.bookie.app import start_bookie
from tailrace.bookie.config import BookieConfig
from tailrace.core.runtime.clock import SystemClock
from tailrace.core.runtime.files import SystemFiles

async def main():
    root, bookie_id, port = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    config = BookieConfig(
        journal_directories=(root / "journal",), ledger_directories=(root / "ledgers",),
        bookie_id=bookie_id, port=port, log_size_limit=64 * 1024 * 1024,
    )
    process = await start_bookie(config, None, SystemClock(), SystemFiles())
    print(process.server.port, flush=True)
    await asyncio.get_running_loop().create_future()

asyncio.run(main())
"""


class BookieChild:
    """One bookie as a process of its own, which keeps its port and files over restarts."""

    def __init__(self, path: Path, name: str) -> None:
        self.bookie_id = BookieId(name)
        self.port = 0
        self._path = path
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", CHILD, str(self._path), self.bookie_id, str(self.port)],
            stdout=subprocess.PIPE,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, f"bookie {self.bookie_id} did not start"
        self.port = int(line)

    def signal(self, number: int) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def kill(self) -> None:
        process, self._process = self._process, None
        if process is not None and process.stdout is not None:
            process.send_signal(signal.SIGKILL)
            process.wait()
            process.stdout.close()


class Bookies:
    """A registry of the children: found by their ports."""

    def __init__(self, children: list[BookieChild]) -> None:
        self._children = {child.bookie_id: child for child in children}
        self._clients: dict[BookieId, TcpBookieClient] = {}
        self.version = 0

    async def available(self) -> list[BookieId]:
        return sorted(self._children)

    async def registered(self) -> list[BookieId]:
        return await self.available()

    def standing(self, bookie_id: BookieId) -> Standing:
        return Standing.AVAILABLE

    def location(self, bookie_id: BookieId) -> NetworkLocation | None:
        return None

    def client(self, bookie_id: BookieId) -> BookieClient:
        if bookie_id not in self._clients:
            config = BookieClientConfig(request_timeout_ms=4000)
            self._clients[bookie_id] = TcpBookieClient(
                bookie_id, lambda: self._address(bookie_id), config
            )
        return self._clients[bookie_id]

    async def close(self) -> None:
        for client in self._clients.values():
            await client.close()

    async def _address(self, bookie_id: BookieId) -> tuple[str, int]:
        return "127.0.0.1", self._children[bookie_id].port


class Listener:
    def __init__(self) -> None:
        self.lac = -1
        self.errors: list[CoreError] = []
        self.moved = asyncio.Event()

    def on_confirmed(self, lac: int) -> None:
        assert lac > self.lac
        assert not self.errors
        self.lac = lac
        self.moved.set()

    def on_failed(self, error: CoreError) -> None:
        self.errors.append(error)
        self.moved.set()

    async def reach(self, lac: int) -> None:
        while self.lac < lac and not self.errors:
            self.moved.clear()
            await self.moved.wait()


class Cluster:
    def __init__(self, path: Path, count: int) -> None:
        self.store = SqliteStore(path / "metadata", SystemClock())
        self.children = [BookieChild(path / f"b{i}", f"b{i}") for i in range(count)]
        self._registries: list[Bookies] = []

    def new_client(self, read: ReadConfig | None = None) -> LedgerClient:
        """Another broker: connections of its own."""
        bookies = Bookies(self.children)
        self._registries.append(bookies)
        config = LedgerClientConfig(read=read or ReadConfig())
        return LedgerClient(self.store, bookies, config, Random(5))

    def child(self, bookie_id: BookieId) -> BookieChild:
        return next(child for child in self.children if child.bookie_id == bookie_id)

    def ensemble(self, writer: LedgerWriter) -> list[BookieChild]:
        return [self.child(bookie_id) for bookie_id in writer.metadata.fragments[0].ensemble]

    async def close(self) -> None:
        for registry in self._registries:
            await registry.close()
        await self.store.close()
        for child in self.children:
            child.kill()


def run(path: Path, count: int, story: Callable[[Cluster], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        cluster = Cluster(path, count)
        try:
            for child in cluster.children:
                child.start()
            await initialize_layout(cluster.store)
            async with asyncio.timeout(120):
                await story(cluster)
        finally:
            await cluster.close()

    asyncio.run(main())


def payload_of(entry_id: int) -> bytes:
    return b"%d:" % entry_id + bytes([entry_id % 251]) * (1 + 37 * entry_id % 3000)


async def write_until(writer: LedgerWriter, listener: Listener, lac: int) -> None:
    """Keep the pipe full until so much is confirmed, and leave it full."""
    while listener.lac < lac:
        try:
            writer.add((payload_of(writer.last_add_pushed + 1),))
        except OverCapacity:
            await listener.reach(listener.lac + 1)
        except CoreError:
            return


async def check(client: LedgerClient, ledger_id: LedgerId, at_least: int, at_most: int) -> None:
    reader = await client.open_ledger(ledger_id, recover=True)
    assert at_least <= reader.last_confirmed <= at_most
    for first in range(0, reader.last_confirmed + 1, 500):
        last = min(first + 499, reader.last_confirmed)
        for entry in await reader.read(first, last):
            assert bytes(entry.payload) == payload_of(entry.entry_id)


def test_killed_bookie_keeps_what_it_acknowledged(tmp_path: Path) -> None:
    async def story(cluster: Cluster) -> None:
        (bookie,) = cluster.children
        rng = Random(11)
        ledgers = []
        for _ in range(5):
            listener = Listener()
            writer = await cluster.new_client().create_ledger(SINGLE, listener)
            await write_until(writer, listener, rng.randrange(1, 2000))
            bookie.kill()
            # What it answered before may still arrive, so go on until the loss is noticed.
            await write_until(writer, listener, NEVER)
            with pytest.raises(CoreError):
                await writer.close()
            assert len(listener.errors) == 1
            bookie.start()
            ledgers.append((writer.ledger_id, listener.lac, writer.last_add_pushed))
            await check(cluster.new_client(), *ledgers[-1])
        for ledger in ledgers:
            await check(cluster.new_client(), *ledger)

    run(tmp_path, 1, story)


def test_one_of_three_bookies_may_die_while_writing(tmp_path: Path) -> None:
    async def story(cluster: Cluster) -> None:
        listener = Listener()
        writer = await cluster.new_client().create_ledger(REPLICATED, listener)
        first, second, third = cluster.ensemble(writer)
        await write_until(writer, listener, 300)
        second.kill()
        await write_until(writer, listener, 900)
        await writer.close()
        assert listener.errors == []
        end = writer.last_add_pushed
        await check(cluster.new_client(), writer.ledger_id, end, end)
        second.start()
        third.kill()
        await check(cluster.new_client(), writer.ledger_id, end, end)
        first.kill()

    run(tmp_path, 3, story)


@pytest.mark.parametrize("config", [REPLICATED, STRIPED], ids=["replicated", "striped"])
def test_forgotten_writer_is_recovered_while_bookies_restart(
    tmp_path: Path, config: LedgerConfig
) -> None:
    async def story(cluster: Cluster) -> None:
        listener = Listener()
        writer = await cluster.new_client().create_ledger(config, listener)
        await write_until(writer, listener, 400)
        for child in cluster.children:
            child.kill()
        for child in cluster.children:
            child.start()
        lac, pushed = listener.lac, writer.last_add_pushed
        async with asyncio.TaskGroup() as group:
            for _ in range(3):
                group.create_task(check(cluster.new_client(), writer.ledger_id, lac, pushed))

    run(tmp_path, 3, story)


def test_fence_outlives_its_bookie(tmp_path: Path) -> None:
    async def story(cluster: Cluster) -> None:
        (bookie,) = cluster.children
        listener = Listener()
        writer = await cluster.new_client().create_ledger(SINGLE, listener)
        await write_until(writer, listener, 10)
        await listener.reach(writer.last_add_pushed)
        end = writer.last_add_pushed
        await check(cluster.new_client(), writer.ledger_id, end, end)
        bookie.kill()
        bookie.start()
        # The old writer's first request finds its connection gone, or the fence.
        writer.add((b"late",))
        await listener.reach(end + 1)
        late = await cluster.new_client().create_ledger(SINGLE, Listener())
        await late.close()
        with pytest.raises(CoreError):
            await writer.close()
        await check(cluster.new_client(), writer.ledger_id, end, end)

    run(tmp_path, 1, story)


def test_fenced_writer_hears_it(tmp_path: Path) -> None:
    async def story(cluster: Cluster) -> None:
        listener = Listener()
        writer = await cluster.new_client().create_ledger(REPLICATED, listener)
        await write_until(writer, listener, 50)
        await listener.reach(writer.last_add_pushed)
        end = writer.last_add_pushed
        await check(cluster.new_client(), writer.ledger_id, end, end)
        writer.add((b"late",))
        with pytest.raises(LedgerFenced):
            await writer.close()
        assert listener.lac == end

    run(tmp_path, 3, story)
