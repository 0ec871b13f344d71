"""A small world for ledger tests: a real metadata store, three bookies in memory, listeners."""

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from random import Random
from typing import Any

from tailrace.core.errors import CoreError
from tailrace.core.ledger.bookie_registry import LocalBookies
from tailrace.core.ledger.client import LedgerClient
from tailrace.core.ledger.config import LedgerClientConfig, LedgerConfig
from tailrace.core.ledger.writer import LedgerWriter
from tailrace.core.metadata.ledger_tree import initialize_layout
from tailrace.core.metadata.sqlite import SqliteStore
from tailrace.core.runtime.clock import ManualClock
from tailrace.protocol.ids import NO_ENTRY, BookieId
from tests.unit.core.ledger.fake_bookie import FakeBookie

REPLICATED = LedgerConfig(ensemble_size=3, write_quorum=3, ack_quorum=2, password=b"pw")
STRIPED = LedgerConfig(ensemble_size=3, write_quorum=2, ack_quorum=2)
SINGLE = LedgerConfig()


class Listener:
    def __init__(self) -> None:
        self.confirmed: list[int] = []
        self.errors: list[CoreError] = []

    def on_confirmed(self, lac: int) -> None:
        assert lac > (self.confirmed[-1] if self.confirmed else NO_ENTRY), "the LAC moved back"
        assert not self.errors, "confirmed after failing"
        self.confirmed.append(lac)

    def on_failed(self, error: CoreError) -> None:
        self.errors.append(error)
        assert len(self.errors) == 1


class World:
    def __init__(self, path: Path, bookies: int = 3) -> None:
        self.store = SqliteStore(path / "metadata", ManualClock())
        self.bookies = [FakeBookie(f"b{i}") for i in range(bookies)]
        self.client = self.new_client()

    def new_client(self, recovery_read_batch: int = 3) -> LedgerClient:
        """Another process: it shares nothing but the store and the bookies."""
        config = LedgerClientConfig(recovery_read_batch=recovery_read_batch, read_window=4)
        return LedgerClient(self.store, LocalBookies(self.bookies), config, Random(7))

    def bookie(self, bookie_id: BookieId) -> FakeBookie:
        return next(bookie for bookie in self.bookies if bookie.bookie_id == bookie_id)

    def ensemble(self, writer: LedgerWriter) -> list[FakeBookie]:
        return [self.bookie(b) for b in writer.metadata.fragments[0].ensemble]


async def settle(turns: int = 20) -> None:
    """Let everything that is ready run: the fakes answer on the next turn of the loop."""
    for _ in range(turns):
        await asyncio.sleep(0)


def hear_assertions() -> list[BaseException]:
    """Collect what fails in callbacks, a listener's above all: the loop would only log it."""
    heard: list[BaseException] = []

    def handle(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if isinstance(error := context.get("exception"), AssertionError):
            heard.append(error)
        else:
            loop.default_exception_handler(context)

    asyncio.get_running_loop().set_exception_handler(handle)
    return heard


def run_world(
    path: Path, story: Callable[[World], Coroutine[Any, Any, None]], bookies: int = 3
) -> None:
    async def main() -> None:
        world = World(path, bookies)
        heard = hear_assertions()
        try:
            await initialize_layout(world.store, instance_id="test")
            async with asyncio.timeout(30):
                await story(world)
            assert not heard, heard
        finally:
            await world.store.close()

    asyncio.run(main(), debug=True)
