"""This project's side of the tests: bookies as processes, ledger clients in the test's process."""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any, Final, Self

from core.errors import CoreError
from core.ledger.bookie_registry import RegisteredBookies
from core.ledger.client import LedgerClient
from core.ledger.config import LedgerClientConfig
from core.ledger.writer import LedgerWriter
from core.metadata.uri import ledgers_root, open_store
from protocol.ids import EntryId
from tests.interop.bookkeeper.java import free_port
from tests.interop.bookkeeper.payloads import payload

ROOT: Final = Path(__file__).parents[3]
STOP_WITHIN_S: Final = 30
STORY_WITHIN_S: Final = 100
SESSION_TIMEOUT_MS: Final = 2_000

_CHILD: Final = """
import asyncio, sys
from pathlib import Path
from bookie.app import start_bookie
from bookie.config import BookieConfig
from core.metadata.uri import ledgers_root, open_store
from core.runtime.clock import SystemClock
from core.runtime.files import SystemFiles

async def main():
    path, uri, port = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    config = BookieConfig(
        journal_directories=(path / "journal",), ledger_directories=(path / "ledgers",), port=port,
        preallocate_mb=1, ledgers_root=ledgers_root(uri),
    )
    store = await open_store(uri, session_timeout_ms=int(sys.argv[4]))
    process = await start_bookie(config, store, SystemClock(), SystemFiles())
    print("ready", flush=True)
    await asyncio.get_running_loop().create_future()

asyncio.run(main())
"""


class OurBookie:
    """A bookie of this project in a process of its own; its files outlive `kill`."""

    def __init__(self, path: Path, uri: str) -> None:
        path.mkdir(parents=True, exist_ok=True)
        self.path = path
        self.port = free_port()
        self.bookie_id = f"127.0.0.1:{self.port}"
        self._arguments = [str(path), uri, str(self.port), str(SESSION_TIMEOUT_MS)]
        self._child: subprocess.Popen[bytes] | None = None

    def start(self) -> Self:
        """Start it and return once it listens and is registered."""
        with (self.path / "log").open("ab") as log:
            self._child = subprocess.Popen(
                [sys.executable, "-c", _CHILD, *self._arguments],
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
            )
        assert self._child.stdout is not None
        assert self._child.stdout.readline() == b"ready\n", (self.path / "log").read_text()
        return self

    def kill(self) -> None:
        """SIGKILL, which a bookie must bear at any point. Idempotent."""
        child, self._child = self._child, None
        if child is not None:
            child.kill()
            child.wait(STOP_WITHIN_S)
            assert child.stdout is not None
            child.stdout.close()

    stop = kill


class Listener:
    """What a writer's owner hears."""

    def __init__(self) -> None:
        self.lac = -1
        self.errors: list[CoreError] = []
        self._moved = asyncio.Event()

    def on_confirmed(self, lac: EntryId) -> None:
        assert lac > self.lac
        self.lac = lac
        self._moved.set()

    def on_failed(self, error: CoreError) -> None:
        self.errors.append(error)
        self._moved.set()

    async def reach(self, lac: int) -> None:
        """Wait until so much is confirmed, or nothing more will be."""
        while self.lac < lac and not self.errors:
            self._moved.clear()
            await self._moved.wait()


@asynccontextmanager
async def ledger_client(uri: str) -> AsyncIterator[LedgerClient]:
    """A client with a session and connections of its own."""
    store = await open_store(uri, session_timeout_ms=10_000)
    bookies = RegisteredBookies(store, root=ledgers_root(uri))
    try:
        yield LedgerClient(store, bookies, LedgerClientConfig(root=ledgers_root(uri)), Random(5))
    finally:
        await bookies.close()
        await store.close()


async def add(writer: LedgerWriter, listener: Listener, seed: int, count: int, size: int) -> None:
    """Add entries and wait until all are confirmed, or the writer failed."""
    for _ in range(count):
        writer.add((payload(seed, writer.last_add_pushed + 1, size),))
    await listener.reach(writer.last_add_pushed)


def run(story: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    """Run a story on a loop of its own, bounded in time."""

    async def main() -> Any:
        async with asyncio.timeout(STORY_WITHIN_S):
            return await story()

    return asyncio.run(main())
