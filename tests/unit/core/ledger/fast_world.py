"""The small world of `world`, without threads and without waiting: time jumps to the next timer."""

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any

from typing_extensions import override

from tailrace.core.ledger.bookie_registry import LocalBookies
from tailrace.core.ledger.client import LedgerClient
from tailrace.core.ledger.config import LedgerClientConfig
from tailrace.core.ledger.writer import OpenLedger
from tailrace.core.metadata.ledger_metadata import LedgerMetadata, decode_ledger
from tailrace.core.metadata.ledger_tree import initialize_layout
from tailrace.core.runtime.task_health import task_health
from tailrace.protocol.ids import BookieId, LedgerId
from tests.unit.core.ledger.fake_bookie import FakeBookie
from tests.unit.core.ledger.memory_store import MemoryStore
from tests.unit.core.ledger.world import hear_assertions, settle


class _InstantSelector(selectors.DefaultSelector):
    def __init__(self) -> None:
        super().__init__()
        self.now_s = 0.0

    @override
    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        assert timeout is not None, "every task waits and no timer is set"
        self.now_s += max(timeout, 0)
        return []


class InstantLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._instant = _InstantSelector()
        super().__init__(self._instant)
        task_health(self).random = Random("pauses")

    @override
    def time(self) -> float:
        return self._instant.now_s


class FastWorld:
    def __init__(self, bookies: int) -> None:
        self.store = MemoryStore()
        self.bookies = [FakeBookie(f"b{i}") for i in range(bookies)]
        self.client = self.new_client()

    def new_client(self, recovery_read_batch: int = 3) -> LedgerClient:
        """Another process: it shares nothing but the store and the bookies."""
        config = LedgerClientConfig(recovery_read_batch=recovery_read_batch, read_window=4)
        return LedgerClient(self.store, LocalBookies(self.bookies), config, Random(7))

    def add_bookie(self) -> FakeBookie:
        """Start one more, which clients made from now on know."""
        self.bookies.append(FakeBookie(f"b{len(self.bookies)}"))
        return self.bookies[-1]

    def bookie(self, bookie_id: BookieId) -> FakeBookie:
        return next(bookie for bookie in self.bookies if bookie.bookie_id == bookie_id)

    def ensemble(self, writer: OpenLedger, fragment: int = -1) -> list[FakeBookie]:
        return [self.bookie(b) for b in writer.metadata.fragments[fragment].ensemble]

    def others(self, writer: OpenLedger) -> list[FakeBookie]:
        """The bookies that no fragment of the ledger names."""
        named = {b for fragment in writer.metadata.fragments for b in fragment.ensemble}
        return [bookie for bookie in self.bookies if bookie.bookie_id not in named]

    def stored(self, ledger_id: LedgerId) -> LedgerMetadata:
        """The ledger's metadata as it is in the store now."""
        return decode_ledger(self.store._tree.get(self.client._paths.ledger(ledger_id)).data)

    def holders(self, ledger_id: LedgerId, entry_id: int) -> list[BookieId]:
        """Which bookies, of those that readers will ask, have an entry."""
        metadata = self.stored(ledger_id)
        ensemble = metadata.fragment_of(entry_id).ensemble
        size = len(ensemble)
        asked = [ensemble[(entry_id + i) % size] for i in range(metadata.write_quorum)]
        return [
            b
            for b in asked
            if (ledger := self.bookie(b).ledgers.get(ledger_id)) and entry_id in ledger.entries
        ]

    def check_confirmed(self, ledger_id: LedgerId, lac: int) -> None:
        """What was confirmed lies at an ack quorum of those whom readers will ask."""
        ack_quorum = self.stored(ledger_id).ack_quorum
        for entry_id in range(lac + 1):
            holders = self.holders(ledger_id, entry_id)
            assert len(holders) >= ack_quorum, (entry_id, holders)


async def read_all(world: FastWorld, ledger_id: LedgerId) -> list[bytes]:
    """The payloads of a ledger, recovered if it is open; its length is checked."""
    reader = await world.new_client().open_ledger(ledger_id, recover=True)
    entries = await reader.read(0, reader.last_confirmed)
    assert reader.metadata.length == (entries[-1].length if entries else 0)
    assert reader.metadata.length == sum(len(entry.payload) for entry in entries)
    return [bytes(entry.payload) for entry in entries]


def run_fast(story: Callable[[FastWorld], Coroutine[Any, Any, None]], bookies: int = 5) -> None:
    async def main() -> None:
        world = FastWorld(bookies)
        heard = hear_assertions()
        try:
            await initialize_layout(world.store, instance_id="test")
            async with asyncio.timeout(3600):
                await story(world)
            await settle()
            assert not heard, heard
        finally:
            await world.store.close()

    with asyncio.Runner(loop_factory=InstantLoop, debug=True) as runner:
        runner.run(main())
