"""The thin client: streams by name through the proxies that own and read them.

    async with dlog.ThinClient("distributedlog://zk1:2181;zk2:2181/messaging/orders") as client:
        dlsn = await client.write("payments", b"paid")
        async with client.read("payments", dlsn) as reader:
            async for record in reader: ...

It has no ledgers, no locks, no bookies: a write proxy writes for it, a read proxy reads. It finds
both by itself, follows redirects, and goes on at another proxy when one dies. All calls of one
client come from one loop. `tailrace.dlog.sync.ThinClient` has the same names, and blocks.
"""

import os
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Final, Self

from tailrace.core.metadata.zookeeper import SESSION_TIMEOUT_MS
from tailrace.core.metadata.zookeeper_acls import ZookeeperAccess
from tailrace.core.metadata.zookeeper_config import ZookeeperSecurityConfig
from tailrace.core.runtime.clock import SystemClock
from tailrace.core.runtime.config import Assignment, load
from tailrace.dlog.opening import Opening
from tailrace.dlog.records import START, TAIL, Edge, LogRecord
from tailrace.dlog.settings import Setting
from tailrace.dlog.thin_streams import (
    MultiStreamWriter,
    Segment,
    ThinReader,
    ThinWriter,
    log_record,
    segment,
)
from tailrace.protocol.distributedlog.dlsn import DLSN
from tailrace.protocol.ids import Buffer, TxId
from tailrace.proxy.client.client import ClientRoutes, ProxyClient
from tailrace.proxy.client.config import ClientConfig
from tailrace.proxy.client.errors import ProxyError
from tailrace.proxy.client.grpc_transport import GrpcTransport
from tailrace.proxy.client.multi_stream_writer import (
    MultiStreamSettings,
    Written,
)
from tailrace.proxy.client.routes import Routes
from tailrace.proxy.client.targets import (
    READ_PROXIES,
    WRITE_PROXIES,
    At,
    Following,
    Target,
    parse_host,
    parse_target,
)

__all__ = [
    "MultiStreamWriter",
    "ProxyError",
    "Segment",
    "ThinClient",
    "ThinReader",
    "ThinWriter",
    "Written",
    "known_client_settings",
]

WRITER_ID_BYTES: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class _Settings:
    client: ClientConfig = field(default_factory=ClientConfig)
    zookeeper: ZookeeperSecurityConfig = field(default_factory=ZookeeperSecurityConfig)


class ThinClient:
    """Streams through proxies: `async with ThinClient(...)`, or `await` it and `close` it.

    Source: DistributedLogClient, DistributedLogMultiStreamWriter.
    """

    def __init__(
        self,
        target: Target,
        *,
        readers: Target | None = None,
        region: str | None = None,
        regions_of: Mapping[str, str] | None = None,
        settings: Mapping[str, object] | None = None,
    ) -> None:
        """Choose the proxies, and the settings; nothing is opened yet.

        `target`: a namespace's URI, in which proxies are registered; addresses `HOST:PORT`; or
        those of each region, by its name. `readers`: the read proxies, if `target` does not name
        them. `region`: that of this client; its proxies are asked first. `regions_of`: the region
        of an address, where neither `target` nor the host's name (`REGION-RACK-NAME-NUMBER`) says
        it. `settings`: by name, see `known_client_settings`.
        Errors: ValueError (what is not a URI or an address), ConfigError.
        """
        given = [Assignment(key, value, "settings") for key, value in (settings or {}).items()]
        loaded = load(_Settings, given).config
        self._config = loaded.client
        self._access = ZookeeperAccess(loaded.zookeeper)
        self._targets = parse_target(target)
        self._readers = self._targets if readers is None else parse_target(readers)
        self._region = region
        self._overrides = {
            parse_host(address): name for address, name in (regions_of or {}).items()
        }
        self._stack = AsyncExitStack()
        self._client: ProxyClient | None = None

    # ------------------------------------------------------------------ its life

    def __await__(self) -> Generator[Any, Any, Self]:
        """Find the proxies; the caller closes it. Use it once.

        Errors: Unavailable when no server of a namespace answers. Cancel: nothing is open.
        Cost: a ZooKeeper session for a namespace; proxies are connected to when needed.
        """
        return self._open_all().__await__()

    async def _open_all(self) -> Self:
        async with self._stack:
            self._client = client = await self._open()
            self._stack.push_async_callback(client.close)
            self._stack = self._stack.pop_all()
        return self

    async def close(self) -> None:
        """Wait for the answers to all records, then end readers, writers, connections. Idempotent.

        Errors: none: each record's call or future has its own. Cancel: what is not answered fails,
        and may be written.
        """
        try:
            if self._client is not None:
                await self._client.flush()
        finally:
            await self._stack.aclose()

    async def __aenter__(self) -> Self:
        """Find the proxies, until the end of the block."""
        return await self._open_all()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    # ------------------------------------------------------------------ writing

    async def write(self, stream: str, payload: Buffer) -> DLSN:
        """Write a record; return its position once it is durable: on disk at the ack quorum.

        The stream's owner is found, redirects are followed, another proxy is asked when one fails.
        With `enable.idempotence` (the default) the record is there once, though it was sent again,
        and records of one stream keep the order of the calls. Without it DistributedLog's rule
        holds: a record that is sent again after an unknown outcome may be there twice.
        Shape: an answer of an owner that does not know the place any more is `DLSN(0, -1, -1)`.
        Errors: ProxyError, with `code`, `stream`, `host` and `is_unknown`, of these kinds:
        LogNotFound, InvalidStreamName, LogRecordTooLong, EndOfStream, OverCapacity: nothing was
        written. Unavailable: no proxy took it within `delivery.timeout.ms`. Where `is_unknown` is
        set the record may be there. Cancel: only the waiting ends.
        Cost: one round trip, and a sync at the bookies. Source: DistributedLogClient.write.
        """
        return await self._open_client.write(stream, bytes(payload))

    async def write_bulk(self, stream: str, payloads: Iterable[Buffer]) -> list[DLSN]:
        """Write records in their order; return their positions once all are durable.

        Errors: as `write`, of the first that failed; what is behind it may be written, unless it
        says otherwise. Cancel: what was taken is written. Source: DistributedLogClient.writeBulk.
        """
        return await self._open_client.write_bulk(stream, [bytes(each) for each in payloads])

    def open_writer(self, stream: str) -> Opening[ThinWriter]:
        """Open a writer of many records in flight. Cost: none; the first record opens its call."""
        return Opening(self._open_writer(stream))

    def multi_stream_writer(
        self,
        streams: Sequence[str],
        *,
        buffer_bytes: int = 16 * 1024,
        flush_ms: int = 2,
        timeout_ms: int = 500,
    ) -> Opening[MultiStreamWriter]:
        """Open a writer to any of several streams.

        `buffer_bytes`, `flush_ms`: when a set is sent. `timeout_ms`: a set that no stream has taken
        by then fails. Errors: ValueError without a stream.
        """
        settings = MultiStreamSettings(buffer_bytes, flush_ms, timeout_ms)
        return Opening(self._open_multi_stream_writer(streams, settings))

    # ------------------------------------------------------------------ reading

    def read(
        self, stream: str, start: DLSN | TxId | Edge = START, *, tail: bool = True
    ) -> Opening[ThinReader]:
        """Open a reader of the records at and behind a position.

        `start`: a DLSN; a txid: the first record that has it or a higher one; START: the oldest
        record; TAIL: what comes from now on. `tail`: wait for more at the tail, for ever; else the
        records end there.
        Errors: with TAIL, as `read_last`; else none: the reader's calls raise.
        Cost: none; with TAIL a round trip.
        """
        return Opening(self._open_reader(stream, start, tail=tail))

    async def read_last(self, stream: str) -> LogRecord | None:
        """Return the last record that can be read; None: there is none.

        Errors: ProxyError (LogNotFound, Unavailable). Cost: one round trip.
        """
        found = await self._open_client.read_last(stream)
        return None if found is None else log_record(found)

    async def segments(self, stream: str) -> list[Segment]:
        """Return the segments of a stream, oldest first. Errors: as `read_last`."""
        return [segment(each) for each in await self._open_client.segments(stream)]

    # ------------------------------------------------------------------ streams

    async def create(self, stream: str) -> None:
        """Make a stream.

        Errors: ProxyError: LogExists, also when an earlier try of this call made it;
        InvalidStreamName; Unavailable. Source: DistributedLogClient.create.
        """
        await self._open_client.change("create", stream)

    async def delete(self, stream: str) -> None:
        """Delete a stream with all its records.

        Errors: ProxyError: LogNotFound, also when an earlier try of this call deleted it;
        Unavailable. Source: DistributedLogClient.delete.
        """
        await self._open_client.change("delete", stream)

    async def truncate(self, stream: str, dlsn: DLSN) -> None:
        """Give up all records before a position; they are deleted in time. It may be repeated.

        Errors: ProxyError; ValueError for a DLSN below zero. Source: DistributedLogClient.truncate.
        """
        if min(dlsn) < 0:
            raise ValueError(f"{dlsn} is not a position to truncate to")
        await self._open_client.truncate(stream, dlsn)

    async def release(self, stream: str) -> None:
        """Have the owner complete a stream and let it go; the next request claims it, anywhere.

        Errors: ProxyError. Source: DistributedLogClient.release.
        """
        await self._open_client.change("release", stream)

    async def heartbeat(self, stream: str, *, to_readers: bool = False) -> None:
        """Have a stream owned, so that a first write need not wait for that.

        `to_readers`: write a control record, which tells idle readers that the stream has an owner.
        Errors: ProxyError. Source: DistributedLogClient.heartbeat.
        """
        await self._open_client.heartbeat(stream, to_readers=to_readers)

    async def owner(self, stream: str) -> str | None:
        """Return the address of the owner, `HOST:PORT`, as far as a proxy knows it; None: unowned.

        It claims nothing. Errors: ProxyError (InvalidStreamName). Cost: a round trip for each
        proxy that does not know it. Source: DistributedLogClient.getOwner.
        """
        host = await self._open_client.owner(stream)
        return None if host is None else f"{host.name}:{host.port}"

    # ------------------------------------------------------------------ inside

    @property
    def _open_client(self) -> ProxyClient:
        if self._client is None:
            raise ValueError("the client is not open: await it, or use `async with`")
        return self._client

    async def _open(self) -> ProxyClient:
        client = ProxyClient(
            self._config,
            GrpcTransport(self._config),
            SystemClock(),
            ClientRoutes(self._routes(self._targets), self._routes(self._readers)),
            lambda: os.urandom(WRITER_ID_BYTES),
        )
        following = Following(self._stack, SESSION_TIMEOUT_MS, self._access)
        await following.follow(self._targets, WRITE_PROXIES, client.writing.update)
        await following.follow(self._readers, READ_PROXIES, client.reading.update)
        client.start_handshakes()
        return client

    def _routes(self, targets: Sequence[At]) -> Routes:
        return Routes([at.source for at in targets], self._region, self._overrides)

    async def _open_writer(self, stream: str) -> ThinWriter:
        return ThinWriter(stream, self._open_client)

    async def _open_multi_stream_writer(
        self, streams: Sequence[str], settings: MultiStreamSettings
    ) -> MultiStreamWriter:
        client = self._open_client
        return MultiStreamWriter(client.multi_stream_writer(streams, settings), client)

    async def _open_reader(
        self, stream: str, start: DLSN | TxId | Edge, *, tail: bool
    ) -> ThinReader:
        client = self._open_client
        if start is TAIL:
            at: DLSN | int | None = await client.behind_tail(stream)
        else:
            at = None if isinstance(start, Edge) else start
        return ThinReader(client.reader(stream, at, tails=tail), client)


def known_client_settings() -> list[Setting]:
    """Return every setting that `ThinClient` takes, with its default, sorted by name."""
    found = load(_Settings, []).effective()
    return [Setting(each.key, each.value, each.doc) for each in found]
