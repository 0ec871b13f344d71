"""A world for log tests: a real metadata store, bookies in memory, processes that come and go."""

import asyncio
import json
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from tailrace.core.errors import CoreError
from tailrace.core.ledger.bookie_registry import LocalBookies
from tailrace.core.ledger.client import LedgerClient
from tailrace.core.log.config import LogConfig
from tailrace.core.log.entries import LogRecordWithDLSN
from tailrace.core.log.log import Log
from tailrace.core.log.namespace import LogNamespace
from tailrace.core.log.writer import LogWriter
from tailrace.core.metadata.ledger_tree import initialize_layout, ledger_ranges
from tailrace.core.metadata.sqlite import SqliteStore
from tailrace.core.metadata.store import MetadataStore
from tailrace.core.runtime.clock import ManualClock
from tailrace.protocol.distributedlog.dlsn import DLSN, INITIAL
from tailrace.protocol.distributedlog.envelope import unpack_envelope
from tailrace.protocol.distributedlog.record import LogRecord, RecordParts
from tests.unit.core.ledger.fake_bookie import FakeBookie
from tests.unit.core.ledger.world import hear_assertions

if TYPE_CHECKING:
    from tailrace.core.log.cold.store import ColdStore

QUIET = LogConfig(control_flush_ms=0, lock_timeout_s=0)
"""No control record on its own account, so that entry ids are known; nobody waits for an owner."""


class Listener:
    def __init__(self) -> None:
        self.confirmed: list[int] = []
        self.errors: list[CoreError] = []
        self._moved = asyncio.Event()

    def on_confirmed(self, txid: int) -> None:
        assert not self.confirmed or txid >= self.confirmed[-1]
        assert not self.errors, "confirmed after failing"
        self.confirmed.append(txid)
        self._moved.set()

    async def reached(self, txid: int) -> None:
        """Wait until the record is confirmed."""
        while self.last < txid:
            self._moved.clear()
            await self._moved.wait()

    def on_failed(self, error: CoreError) -> None:
        self.errors.append(error)
        assert len(self.errors) == 1

    @property
    def last(self) -> int:
        return self.confirmed[-1] if self.confirmed else -1


class RecordState:
    """An owner's state that shows everything it was told: the txids, and the segment's index."""

    def __init__(self, padding: int = 0) -> None:
        self.txids: list[int] = []
        self.segment: list[Any] = []
        self.replayed = 0
        self.restored: list[bytes | None] = []
        self.padding = padding

    def snapshot(self) -> bytes:
        if not self.txids:
            return b""
        return json.dumps({"txids": self.txids, "padding": "x" * self.padding}).encode()

    def begin_segment(self, lssn: int, ledger_id: int) -> None:
        self.segment = [lssn, ledger_id, []]

    def observe(self, lssn: int, entry_id: int, records: Sequence[RecordParts]) -> None:
        assert lssn == self.segment[0]
        txids = [txid for txid, _, _, values in records for _ in range(values or 1)]
        self.txids += txids
        self.segment[2] += [[entry_id, slot, txid] for slot, txid in enumerate(txids)]

    def index(self) -> bytes:
        return json.dumps(self.segment).encode()

    def restore(self, snapshot: bytes | None) -> None:
        self.restored.append(snapshot)
        self.txids = json.loads(snapshot)["txids"] if snapshot else []
        self.segment = []

    def replay(self, dlsn: DLSN, record: LogRecord) -> None:
        assert dlsn.lssn == self.segment[0]
        self.txids.append(record.txid)
        self.replayed += 1


class World:
    """One store and some bookies; every `namespace()` is another process' view of them."""

    def __init__(self, path: Path, bookies: int = 1, config: LogConfig = QUIET) -> None:
        self.path = path
        self.clock = ManualClock()
        self.config = config
        self.store = self._open_store()
        self.bookies = [FakeBookie(f"b{i}") for i in range(bookies)]
        self.cold: ColdStore | None = None

    def _open_store(self) -> SqliteStore:
        return SqliteStore(self.path / "metadata", self.clock)

    @property
    def bookie(self) -> FakeBookie:
        return self.bookies[0]

    def ledgers(self, store: MetadataStore | None = None) -> LedgerClient:
        return LedgerClient(store or self.store, LocalBookies(self.bookies), None, Random(7))

    def namespace(
        self, store: MetadataStore | None = None, config: LogConfig | None = None, **changes: Any
    ) -> LogNamespace:
        config = replace(config or self.config, **changes)
        namespace = LogNamespace(store or self.store, self.ledgers(store), config, self.clock)
        if self.cold is not None:
            namespace.use_cold_storage(self.cold)
        return namespace

    async def log(self, name: str = "s", **changes: Any) -> Log:
        """Open a log as a new process would, making it if it is not there."""
        namespace = self.namespace(**changes)
        if not await namespace.log_exists(name):
            await namespace.create_log(name)
        return await namespace.open_log(name)

    async def ledger_ids(self) -> set[int]:
        """Return the ledgers that the metadata has."""
        return {each async for ids in ledger_ranges(self.store, "/ledgers") for each in ids}

    async def restart_store(self) -> None:
        """End the session: what is ephemeral goes."""
        await self.store.close()
        self.store = self._open_store()

    async def dump(self, root: str = "/distributedlog/tailrace") -> dict[str, bytes]:
        """Return the metadata tree below `root`: path -> data."""
        node = await self.store.get(root)
        tree = {root: node.data}
        for child in await self.store.children(root):
            tree |= await self.dump(f"{root}/{child}")
        return tree


def put(writer: LogWriter, txid: int, payload: bytes = b"") -> None:
    payload = payload or b"r%d" % txid
    middle = len(payload) // 2
    writer.append(txid, (payload[:middle], memoryview(payload)[middle:]), len(payload))


async def write(writer: LogWriter, *txids: int) -> None:
    """Append records one by one and wait until they are confirmed."""
    for txid in txids:
        put(writer, txid)
    await writer.flush()


async def entries_of(world: World, log: Log, lssn: int) -> list[list[LogRecord]]:
    """Return the records of every entry of a segment that is readable, control records too."""
    segment = log.segments.find(lssn)
    assert segment is not None
    ledger = await world.ledgers().open_ledger(segment.ledger_id, recover=False)
    entries = await ledger.read(0, ledger.last_confirmed)
    return [[record for _, record in unpack_envelope(e.payload)] for e in entries]


async def read_all(
    log: Log, start: DLSN = INITIAL, max_bytes: int = 1 << 20, at_least: int = 0
) -> list[LogRecordWithDLSN]:
    """Read to the tail. `at_least`: how many records must come.

    What is confirmed in the next segment is read once the one before is completed, which may still
    be under way when the writer has been told.
    """
    reader = await log.open_reader(start)
    found: list[LogRecordWithDLSN] = []
    while (batch := await reader.read(max_bytes)) or len(found) < at_least:
        found += batch
        if not batch:
            await reader.wait_for_more()
    await reader.close()
    return found


async def txids_of(log: Log, start: DLSN = INITIAL, at_least: int = 0) -> list[int]:
    found = await read_all(log, start, at_least=at_least)
    assert all(bytes(record.payload) == b"r%d" % record.txid for _, record in found)
    assert [dlsn for dlsn, _ in found] == sorted({dlsn for dlsn, _ in found})
    return [record.txid for _, record in found]


async def settle(turns: int = 20) -> None:
    """Let everything that is ready run: the fakes answer on the next turn of the loop."""
    for _ in range(turns):
        await asyncio.sleep(0)


def run_world(
    path: Path,
    story: Callable[[World], Coroutine[Any, Any, None]],
    bookies: int = 1,
    config: LogConfig = QUIET,
) -> None:
    async def main() -> None:
        world = World(path, bookies, config)
        heard = hear_assertions()
        try:
            await initialize_layout(world.store, instance_id="test")
            async with asyncio.timeout(60):
                await story(world)
            assert not heard, heard
        finally:
            await world.store.close()

    asyncio.run(main(), debug=True)
