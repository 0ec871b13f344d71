"""A thin client: its proxies, its writers, its readers. `tailrace.dlog.ThinClient` is its face.

    request -> Caller ---------------------+
    records -> StreamWriter (one a stream) +-> Proxies (which to ask) -> Transport -> proxy
    reading -> RecordReader ---------------+

All that runs belongs to the client and ends with it.
"""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, NamedTuple, Protocol

from google.protobuf.message import Message

from tailrace.core.errors import OverCapacity
from tailrace.core.runtime.clock import Clock
from tailrace.core.runtime.tasks import Tasks, together
from tailrace.protocol.distributedlog.dlsn import DLSN
from tailrace.protocol.proxy.methods import READ_PROXY, WRITE_PROXY
from tailrace.protocol.proxy.read_proxy_pb2 import (
    ListSegmentsRequest,
    ListSegmentsResponse,
    LogRecord,
    LogSegment,
    ReadLastRequest,
)
from tailrace.protocol.proxy.write_proxy_pb2 import (
    HeartbeatRequest,
    StreamRequest,
    TruncateRequest,
)
from tailrace.proxy.client.caller import Caller, closed
from tailrace.proxy.client.config import ClientConfig
from tailrace.proxy.client.handshakes import Handshakes
from tailrace.proxy.client.messages import code_of, dlsn_message, dlsn_of, write_context
from tailrace.proxy.client.multi_stream_writer import MultiStreamSettings, MultiStreamWriter
from tailrace.proxy.client.owners import OwnerCache
from tailrace.proxy.client.proxies import Proxies
from tailrace.proxy.client.reactions import Rules
from tailrace.proxy.client.record_reader import RecordReader
from tailrace.proxy.client.room import Room
from tailrace.proxy.client.routes import Routes
from tailrace.proxy.client.stream_writer import StreamWriter, Surroundings
from tailrace.proxy.client.transport import Transport
from tailrace.proxy.client.unary_writes import UnaryWrites
from tailrace.proxy.owner.codes import StatusCode
from tailrace.proxy.owner.location import parse_location
from tailrace.proxy.routing.ring import Host

OWNER_ASKED_MAX: Final = 100
"""Proxies that are asked for the owner of a stream."""

_EVICTED_AMONG: Final = 100
"""Writers, of those not used for longest, among which an idle one is looked for."""

_AT_ONCE: Final = 64


class Closing(Protocol):
    """What ends with the client."""

    async def close(self) -> None:
        """End it."""


class Flushing(Protocol):
    """What takes records."""

    async def flush(self) -> None:
        """Wait until they are answered."""


class ClientRoutes(NamedTuple):
    """The routes of both services, empty yet."""

    writing: Routes
    reading: Routes


class ProxyClient:
    """One thin client. All calls come from one loop.

    Its routes are empty at first: `writing.update` and `reading.update` take in the members.
    """

    def __init__(
        self,
        config: ClientConfig,
        transport: Transport,
        clock: Clock,
        routes: ClientRoutes,
        new_writer_id: Callable[[], bytes],
    ) -> None:
        """`new_writer_id`: draws 16 random bytes."""
        self.config = config
        self._transport = transport
        self._clock = clock
        rules = Rules(config.stream_failfast, config.redirects_max)
        self.owners = OwnerCache(config.owners_max)
        self.writing = Proxies(routes.writing, transport, clock, rules, self.owners)
        self.reading = Proxies(routes.reading, transport, clock, rules)
        self._write_caller = Caller(self.writing, config)
        self._read_caller = Caller(self.reading, config)
        self._handshakes = Handshakes(self.writing, self.owners, self._write_caller, config)
        self._unary = UnaryWrites(self._write_caller)
        self._room = Room(config.buffer_bytes)
        self._surroundings = Surroundings(self.writing, config, clock, self._room, new_writer_id)
        self._writers: dict[str, StreamWriter] = {}
        """The one that was used last is last."""
        self._latest: StreamWriter | None = None
        """That one."""
        self._readers: set[RecordReader] = set()
        self._multi: set[MultiStreamWriter] = set()
        self._tasks = Tasks("proxy_client")
        self._is_closed = False

    def start_handshakes(self) -> None:
        """Ask all write proxies what they own, in the background, now and every few minutes."""
        self._tasks.start(self._handshakes.run(), "handshakes")

    async def close(self) -> None:
        """End all writers and readers, then the connections. Idempotent.

        Records without an answer fail, and may be written; `flush` comes before.
        """
        if self._is_closed:
            return
        self._is_closed = True
        self._room.close()
        ending: list[Closing] = [*self._multi, *self._readers, *self._writers.values()]
        await together([each.close() for each in ending])
        await self._tasks.close()
        await self._transport.close()

    async def flush(self) -> None:
        """Return when every record that was taken is answered, or has failed in its time."""
        waiting: list[Flushing] = [*self._multi, *self._writers.values()]
        for at in range(0, len(waiting), _AT_ONCE):
            await together([each.flush() for each in waiting[at : at + _AT_ONCE]])

    # ------------------------------------------------------------------ writing

    def writer(self, stream: str) -> StreamWriter:
        """Return the writer of a stream; all that write it through this client share it.

        Errors: Unavailable once closed; OverCapacity with `writers.max` busy ones.
        """
        self._check_open()
        latest = self._latest
        if latest is not None and latest.stream == stream:
            return latest
        writer = self._writers.pop(stream, None)
        if writer is None:
            if len(self._writers) >= self.config.writers_max:
                self._evict()
            writer = StreamWriter(stream, self._surroundings)
        self._writers[stream] = self._latest = writer
        return writer

    def _evict(self) -> None:
        for _, stream in zip(range(_EVICTED_AMONG), self._writers, strict=False):
            if self._writers[stream].is_idle:
                del self._writers[stream]
                return
        text = f"{len(self._writers)} streams are being written (writers.max)"
        raise OverCapacity(text)

    async def write(self, stream: str, payload: bytes) -> DLSN:
        """Write a record: by number through the stream's writer, else by a call of its own.

        Errors: ProxyError. Cancel: only the waiting ends.
        """
        if self.config.idempotence:
            return await (await self.writer(stream).submit(payload))
        self._check_open()
        return await self._unary.write(stream, payload)

    async def write_bulk(self, stream: str, payloads: Sequence[bytes]) -> list[DLSN]:
        """Write records in their order; return once all are answered.

        Errors: ProxyError of the first that failed. Cancel: as `write`.
        """
        if not self.config.idempotence:
            self._check_open()
            at_once = self.config.batch_records
            parts = [payloads[at : at + at_once] for at in range(0, len(payloads), at_once)]
            return [dlsn for part in parts for dlsn in await self._unary.write_bulk(stream, part)]
        writer = self.writer(stream)
        taken = [await writer.submit(payload) for payload in payloads]
        if taken:
            await asyncio.wait(taken)
        return [each.result() for each in taken]

    def multi_stream_writer(
        self, streams: Sequence[str], settings: MultiStreamSettings
    ) -> MultiStreamWriter:
        """Return a writer to any of several streams. Errors: ValueError without a stream."""
        self._check_open()
        made = MultiStreamWriter(streams, self._unary, self.config, self._room, settings)
        self._multi.add(made)
        return made

    async def close_multi_stream_writer(self, writer: MultiStreamWriter) -> None:
        """Flush and end it. Idempotent."""
        try:
            await writer.close()
        finally:
            self._multi.discard(writer)

    # ------------------------------------------------------------------ reading

    def reader(self, stream: str, start: DLSN | int | None, *, tails: bool) -> RecordReader:
        """Return a reader from a position, a txid, or the oldest record (None) on."""
        self._check_open()
        reader = RecordReader(
            stream, self.reading, self.config, self._clock, start=start, tails=tails
        )
        self._readers.add(reader)
        return reader

    async def behind_tail(self, stream: str) -> DLSN | None:
        """Return the place behind what can be read now; None: the stream has no record.

        A reader of what comes begins there. It is looked up once, not by each call of the reader,
        so what comes while none is open is not missed. Errors: ProxyError.
        """
        last = await self.read_last(stream)
        return None if last is None else dlsn_of(last.dlsn).next_slot()

    async def close_reader(self, reader: RecordReader) -> None:
        """End a reader. Idempotent."""
        self._readers.discard(reader)
        await reader.close()

    async def read_last(self, stream: str) -> LogRecord | None:
        """Return the last record that can be read; None: there is none. Errors: ProxyError."""
        self._check_open()
        method = READ_PROXY.methods["read_last"]
        answer = await self._read_caller.ask(
            method, stream, lambda _: ReadLastRequest(stream=stream)
        )
        is_empty = code_of(answer.header) is StatusCode.LOG_EMPTY
        record: LogRecord = answer.record
        return None if is_empty else record

    async def segments(self, stream: str) -> list[LogSegment]:
        """Return the segments of a stream, oldest first.

        Errors: ProxyError. Cost: a round trip for each 5,000.
        """
        self._check_open()
        method = READ_PROXY.methods["list_segments"]
        found: list[LogSegment] = []
        while True:
            first = found[-1].log_segment_sequence_number + 1 if found else 0
            request = ListSegmentsRequest(stream=stream, from_log_segment_sequence_number=first)
            answer: ListSegmentsResponse = await self._read_caller.ask(
                method, stream, partial(_same, request)
            )
            found += answer.segments
            if not (answer.has_more and answer.segments):
                return found

    # ------------------------------------------------------------------ streams

    async def change(self, name: str, stream: str) -> None:
        """Create, delete or release a stream (`name`). Errors: ProxyError."""
        await self._ask(
            name,
            stream,
            lambda tried: StreamRequest(stream=stream, context=write_context(stream, tried)),
        )

    async def truncate(self, stream: str, dlsn: DLSN) -> None:
        """Give up the records before a position. Errors: ProxyError."""
        text = dlsn.serialize().encode()

        def build(tried: list[str]) -> TruncateRequest:
            context = write_context(stream, tried, text)
            return TruncateRequest(stream=stream, dlsn=dlsn_message(dlsn), context=context)

        await self._ask("truncate", stream, build)

    async def heartbeat(self, stream: str, *, to_readers: bool) -> None:
        """Have a stream owned. Errors: ProxyError."""

        def build(tried: list[str]) -> HeartbeatRequest:
            context = write_context(stream, tried)
            return HeartbeatRequest(
                stream=stream, context=context, send_heartbeat_to_reader=to_readers
            )

        await self._ask("heartbeat", stream, build)

    async def owner(self, stream: str) -> Host | None:
        """Return the owner of a stream, as far as a proxy knows; None: none of them knows one.

        Asks in the order of routing, the cached owner first; claims nothing. Errors: ProxyError of
        a request that no proxy takes, such as for a name that is not valid.
        """
        self._check_open()
        method = WRITE_PROXY.methods["get_owner"]
        request = StreamRequest(stream=stream, context=write_context(stream, []))
        asked: dict[Host, None] = {}
        cached = self.owners.get(stream)
        while len(asked) < OWNER_ASKED_MAX:
            routed = self.writing.routes.first(stream, asked)
            host = routed if cached is None or cached in asked else cached
            if host is None:
                break
            asked[host] = None
            found = await self._write_caller.ask_once(method, host, request)
            if found.outcome in (StatusCode.SUCCESS, StatusCode.FOUND):
                at = parse_location(found.location)
                owner = host if at is None else Host(at.host, at.port)
                self.owners.put(stream, owner)
                return owner
            self._write_caller.raise_if_refused(found, stream, host)
        return None

    async def _ask(self, name: str, stream: str, build: Callable[[list[str]], Message]) -> None:
        self._check_open()
        await self._write_caller.ask(WRITE_PROXY.methods[name], stream, build)

    def _check_open(self) -> None:
        if self._is_closed:
            raise closed()


def _same(request: ListSegmentsRequest, _tried: list[str]) -> ListSegmentsRequest:
    return request
