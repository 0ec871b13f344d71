"""This project's side of the tests: bookies as processes, ledger clients in the test's process."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any, Final, Self

from tailrace.core.errors import CoreError
from tailrace.core.ledger.bookie_registry import RegisteredBookies
from tailrace.core.ledger.client import LedgerClient
from tailrace.core.ledger.config import BookieClientConfig, LedgerClientConfig
from tailrace.core.ledger.security_config import BookieClientSecurity
from tailrace.core.ledger.writer import LedgerWriter
from tailrace.core.metadata.uri import ledgers_root, open_store
from tailrace.protocol.ids import EntryId
from tests.interop.bookkeeper.java import free_port
from tests.interop.bookkeeper.payloads import payload

ROOT: Final = Path(__file__).parents[3]
STOP_WITHIN_S: Final = 30
STORY_WITHIN_S: Final = 100
TAILRACE: Final = Path(sys.executable).with_name("tailrace")
SETTINGS: Final = ("zkTimeout=2000", "journalPreAllocSizeMB=1")


class OurBookie:
    """A bookie of this project in a process of its own; its files outlive `kill`."""

    def __init__(
        self, path: Path, uri: str, *, port: int | None = None, settings: tuple[str, ...] = ()
    ) -> None:
        path.mkdir(parents=True, exist_ok=True)
        self.port = port or free_port()
        self.bookie_id = f"127.0.0.1:{self.port}"
        self._log = path / "log"
        self._command = [str(TAILRACE), "bookie", "--metadata", uri, "--data", str(path / "data")]
        self._command += ["--listen", self.bookie_id]
        for setting in (*SETTINGS, *settings):
            self._command += ["--set", setting]
        self._child: subprocess.Popen[bytes] | None = None

    def start(self) -> Self:
        """Start it and return once it listens and is registered."""
        with self._log.open("ab") as log:
            self._child = subprocess.Popen(
                self._command,
                stdout=subprocess.PIPE,
                stderr=log,
                env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"},
            )
        assert self._child.stdout is not None
        for line in self._child.stdout:
            if line == f"ready: bookie={self.bookie_id}\n".encode():
                return self
        raise AssertionError(self._log.read_text())

    def kill(self) -> None:
        """SIGKILL, which a bookie must bear at any point. Idempotent."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """SIGTERM, as a service manager would. Idempotent."""
        self._end(signal.SIGTERM)

    def _end(self, how: signal.Signals) -> None:
        child, self._child = self._child, None
        if child is not None:
            child.send_signal(how)
            child.wait(STOP_WITHIN_S)
            assert child.stdout is not None
            child.stdout.close()


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
async def ledger_client(
    uri: str, security: BookieClientSecurity | None = None
) -> AsyncIterator[LedgerClient]:
    """A client with a session and connections of its own."""
    async with bookies_of(uri, security) as (_, ledgers):
        yield ledgers


@asynccontextmanager
async def bookies_of(
    uri: str, security: BookieClientSecurity | None = None
) -> AsyncIterator[tuple[RegisteredBookies, LedgerClient]]:
    """Such a client and what it finds its bookies by."""
    store = await open_store(uri, session_timeout_ms=10_000)
    patient = BookieClientConfig(
        request_timeout_ms=30_000, security=security or BookieClientSecurity()
    )
    bookies = RegisteredBookies(store, patient, root=ledgers_root(uri))
    try:
        config = LedgerClientConfig(root=ledgers_root(uri))
        yield bookies, LedgerClient(store, bookies, config, Random(5))
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
