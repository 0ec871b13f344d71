"""The thin client for programs without asyncio: the names of `thin_client`, blocking."""

import threading
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final, Self

from typing_extensions import override

from tailrace.dlog import at_end, thin_client
from tailrace.dlog.errors import EndOfStream
from tailrace.dlog.face import Face, blocking, opening
from tailrace.dlog.loop_thread import LoopThread
from tailrace.dlog.records import LogRecord
from tailrace.protocol.distributedlog.dlsn import DLSN
from tailrace.protocol.ids import Buffer
from tailrace.proxy.client.targets import Target

if TYPE_CHECKING:
    from concurrent.futures import Future

    from tailrace.dlog.thin_client import Written

_SUBMITTED_MAX: Final = 10_000
"""Records of one writer that were submitted and not answered; one more waits."""
_READ_AT_ONCE: Final = 1_000
"""Records that an iteration fetches for one change of threads."""


class ThinReader(Face[thin_client.ThinReader]):
    """As `tailrace.dlog.ThinReader`. Threads that share it share its records: each gets others."""

    def __init__(self, inner: thin_client.ThinReader, thread: LoopThread) -> None:
        super().__init__(inner, thread)
        self._ready: deque[LogRecord] = deque()
        """What iterations have fetched. Only whole steps touch it, so threads need no lock."""

    def read_next(self) -> LogRecord:
        """Return the next record, once there is one, as `tailrace.dlog.ThinReader.read_next`."""
        try:
            return self._ready.popleft()
        except IndexError:
            return self._thread.run(self._inner.read_next)

    def read_bulk(self, count: int, timeout_s: float | None = None) -> list[LogRecord]:
        """Return the next records, as `tailrace.dlog.ThinReader.read_bulk`."""
        found: list[LogRecord] = []
        with suppress(IndexError):
            while len(found) < count:
                found.append(self._ready.popleft())
        return found or self._thread.run(partial(self._inner.read_bulk, count, timeout_s))

    def __iter__(self) -> Self:
        """Iterate over the records; stop at a sealed stream's end, or where reading ends."""
        return self

    def __next__(self) -> LogRecord:
        """Return the next record. What was fetched for it stays for the calls that follow."""
        while True:
            try:
                return self._ready.popleft()
            except IndexError:
                pass
            try:
                found = self._thread.run(partial(self._inner.read_bulk, _READ_AT_ONCE))
            except EndOfStream:
                raise StopIteration from None
            if not found:
                raise StopIteration
            self._ready.extend(found)

    @override
    def close(self) -> None:
        """Close it; calls that read from it raise ReadCancelled. Idempotent. Errors: none."""
        self._ready.clear()
        super().close()


class ThinWriter(Face[thin_client.ThinWriter]):
    """As `tailrace.dlog.ThinWriter`. Threads that share it take turns in the order of the calls."""

    def __init__(self, inner: thin_client.ThinWriter, thread: LoopThread) -> None:
        super().__init__(inner, thread)
        self._places = threading.BoundedSemaphore(_SUBMITTED_MAX)

    @property
    def stream(self) -> str:
        """The stream that it writes."""
        return self._inner.stream

    write = blocking(thin_client.ThinWriter.write)

    def submit(self, payload: Buffer) -> "Future[DLSN]":
        """Have a record written; return a future of its position, done when it is durable.

        It waits only while 10,000 records have no answer. Every error is in the future, which
        cannot be cancelled; `flush` and `close` raise the first as well. Cost: 0.1 ms of CPU.
        """
        record = bytes(payload)
        self._places.acquire()
        try:
            answer = self._thread.submit(partial(self._submit, record))
        except BaseException:
            self._places.release()
            raise
        answer.add_done_callback(lambda _: self._places.release())
        return answer

    async def _submit(self, record: bytes) -> DLSN:
        return await (await self._inner.submit(record))

    flush = blocking(thin_client.ThinWriter.flush)


class MultiStreamWriter(Face[thin_client.MultiStreamWriter]):
    """As `tailrace.dlog.MultiStreamWriter`."""

    def __init__(self, inner: thin_client.MultiStreamWriter, thread: LoopThread) -> None:
        super().__init__(inner, thread)
        self._places = threading.BoundedSemaphore(_SUBMITTED_MAX)

    write = blocking(thin_client.MultiStreamWriter.write)

    def submit(self, payload: Buffer) -> "Future[Written]":
        """Have a record written; return a future of where it is. As `ThinWriter.submit`."""
        record = bytes(payload)
        self._places.acquire()
        try:
            answer = self._thread.submit(partial(self._inner.write, record))
        except BaseException:
            self._places.release()
            raise
        answer.add_done_callback(lambda _: self._places.release())
        return answer

    flush = blocking(thin_client.MultiStreamWriter.flush)


class ThinClient(Face[thin_client.ThinClient]):
    """As `tailrace.dlog.ThinClient`; open once it is made, with a thread of its own."""

    def __init__(
        self,
        target: Target,
        *,
        readers: Target | None = None,
        region: str | None = None,
        regions_of: Mapping[str, str] | None = None,
        settings: Mapping[str, object] | None = None,
    ) -> None:
        """Find the proxies, as `await tailrace.dlog.ThinClient(...)` does."""
        inner = thin_client.ThinClient(
            target, readers=readers, region=region, regions_of=regions_of, settings=settings
        )
        super().__init__(inner, LoopThread())
        self._closing = threading.Lock()
        self._thread.start()
        try:
            _ = self._thread.run(lambda: inner)
        except BaseException:
            self._thread.stop()
            raise
        at_end.opened(self)

    write = blocking(thin_client.ThinClient.write)

    def write_bulk(self, stream: str, payloads: Iterable[Buffer]) -> list[DLSN]:
        """Write records as `tailrace.dlog.ThinClient.write_bulk`; all are collected first."""
        collected = [bytes(payload) for payload in payloads]
        return self._thread.run(partial(self._inner.write_bulk, stream, collected))

    open_writer = opening(thin_client.ThinClient.open_writer, ThinWriter)
    read = opening(thin_client.ThinClient.read, ThinReader)
    read_last = blocking(thin_client.ThinClient.read_last)
    segments = blocking(thin_client.ThinClient.segments)
    create = blocking(thin_client.ThinClient.create)
    delete = blocking(thin_client.ThinClient.delete)
    truncate = blocking(thin_client.ThinClient.truncate)
    release = blocking(thin_client.ThinClient.release)
    heartbeat = blocking(thin_client.ThinClient.heartbeat)
    owner = blocking(thin_client.ThinClient.owner)

    def multi_stream_writer(
        self,
        streams: Sequence[str],
        *,
        buffer_bytes: int = 16 * 1024,
        flush_ms: int = 2,
        timeout_ms: int = 500,
    ) -> MultiStreamWriter:
        """Open a writer to any of several streams, as `tailrace.dlog.ThinClient`'s."""
        inner = self._thread.run(
            lambda: self._inner.multi_stream_writer(
                streams, buffer_bytes=buffer_bytes, flush_ms=flush_ms, timeout_ms=timeout_ms
            )
        )
        return MultiStreamWriter(inner, self._thread)

    @override
    def close(self) -> None:
        """Wait for the answers to all records, close all, end the thread. Idempotent."""
        if not self._thread.is_here:
            return
        with self._closing:
            if not at_end.is_open(self):
                return
            try:
                super().close()
            finally:
                at_end.closed(self)
                self._thread.stop()


__all__ = ["MultiStreamWriter", "ThinClient", "ThinReader", "ThinWriter"]
