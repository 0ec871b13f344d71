"""This project's side: where the logs are, and a namespace in the test's process."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final, NamedTuple

from tailrace.core.errors import CoreError
from tailrace.core.ledger.config import BookieClientConfig
from tailrace.core.log.config import LogConfig
from tailrace.core.log.log import Log
from tailrace.core.log.namespace import LogNamespace
from tailrace.core.log.open_namespace import NamespaceOptions, OpenNamespace, open_namespace
from tailrace.core.log.reader import LogReader
from tailrace.core.log.writer import LogWriter
from tailrace.protocol.distributedlog.dlsn import DLSN, INITIAL
from tests.interop.distributedlog.records import SIZE, Seen, payload

READ_BYTES: Final = 1 << 20
SESSION_MS: Final = 10_000


class Place(NamedTuple):
    """A namespace, and the bookies that its ledgers are on."""

    hosts: str
    ledgers: str
    path: str

    @property
    def metadata(self) -> str:
        """The ledgers, as BookKeeper's metadataServiceUri."""
        return f"zk+hierarchical://{self.hosts}{self.ledgers}"

    @property
    def uri(self) -> str:
        """The namespace, as DistributedLog names it."""
        return f"distributedlog://{self.hosts}{self.path}"


class Listener:
    """What an owner of ours hears."""

    def __init__(self) -> None:
        self.txid = -1
        self.errors: list[CoreError] = []
        self._moved = asyncio.Event()

    def on_confirmed(self, txid: int) -> None:
        self.txid = txid
        self._moved.set()

    def on_failed(self, error: CoreError) -> None:
        self.errors.append(error)
        self._moved.set()

    async def moved(self) -> None:
        """Wait until more is confirmed, or the writer is dead."""
        self._moved.clear()
        await self._moved.wait()

    async def failed(self) -> CoreError:
        """Wait until the writer is dead."""
        while not self.errors:
            await self.moved()
        return self.errors[0]


@asynccontextmanager
async def our_namespace(
    uri: str, *, session_timeout_ms: int = SESSION_MS, **settings: Any
) -> AsyncIterator[OpenNamespace]:
    """Open a namespace as a process of its own would; `settings` are those of LogConfig."""
    quorums = {"ensemble_size": 3, "write_quorum": 3, "ack_quorum": 2}
    more = {"client_id": "ours", "detects_position_gaps": True}
    options = NamespaceOptions(
        log=LogConfig(**{**quorums, **more, **settings}),
        bookies=BookieClientConfig(request_timeout_ms=30_000),
        session_timeout_ms=session_timeout_ms,
    )
    async with open_namespace(uri, options) as opened:
        yield opened


@asynccontextmanager
async def our_logs(place: Place, **settings: Any) -> AsyncIterator[LogNamespace]:
    """Open the namespace of a test."""
    async with our_namespace(place.uri, **settings) as opened:
        yield opened.logs


async def put(
    writer: LogWriter, seed: int, first: int, count: int, *, size: int = SIZE, step: int = 1
) -> None:
    """Append records and wait until they are confirmed."""
    for txid in range(first, first + count * step, step):
        writer.append(txid, (payload(f"{seed}/{txid}", size),), size)
    await writer.flush()


async def write_segment(log: Log, seed: int, first: int, count: int) -> None:
    """Own the log, append records and let go: a segment of its own."""
    writer = await log.open_writer(Listener())
    await put(writer, seed, first, count)
    await writer.close()


async def read(log: Log, count: int, start: DLSN = INITIAL) -> list[Seen]:
    """Open a reader and read so many records; wait for them at the tail."""
    reader = await log.open_reader(start)
    try:
        return await read_on(reader, count)
    finally:
        await reader.close()


async def read_on(reader: LogReader, count: int) -> list[Seen]:
    """Read so many records; wait for them at the tail."""
    found: list[Seen] = []
    while len(found) < count:
        records = await reader.read(READ_BYTES)
        found += [Seen.by_us(record) for record in records]
        if not records:
            await reader.wait_for_more()
    return found
