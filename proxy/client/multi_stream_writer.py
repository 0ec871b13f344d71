"""Writing to any of several streams: records gathered into sets, which go round robin.

A set that is not answered soon is sent to another stream as well, so a slow owner delays no record;
then it may be written twice. Source: DistributedLog DistributedLogMultiStreamWriter.
"""

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from tailrace.core.errors import CoreError
from tailrace.core.runtime.tasks import Tasks
from tailrace.protocol.distributedlog.dlsn import DLSN
from tailrace.protocol.distributedlog.record_set import HEADER_SIZE, pack_record_set
from tailrace.proxy.client.caller import closed
from tailrace.proxy.client.config import ClientConfig
from tailrace.proxy.client.errors import ProxyError, proxy_error
from tailrace.proxy.client.record_sets import Gathered, RecordSetBuffer, Turns, speculations_ms
from tailrace.proxy.client.room import Room
from tailrace.proxy.client.unary_writes import UnaryWrites
from tailrace.proxy.owner.codes import StatusCode


class Written(NamedTuple):
    """Where a record of several streams' writer is."""

    stream: str
    dlsn: DLSN


class MultiStreamSettings(NamedTuple):
    """How sets are made and sent. Source: DistributedLogMultiStreamWriter.Builder."""

    buffer_bytes: int = 16 * 1024
    """A set is sent with so many bytes,"""
    flush_ms: int = 2
    """or so long after its first record."""
    timeout_ms: int = 500
    """A set that no stream has taken within this time fails."""
    speculative_first_ms: int = 50
    speculative_max_ms: int = 200
    """When further streams are tried: after the first pause, then each after twice the last."""


class MultiStreamWriter:
    """Writes each record to one of several streams, or to two. All calls come from the loop."""

    def __init__(
        self,
        streams: Sequence[str],
        writes: UnaryWrites,
        config: ClientConfig,
        room: Room,
        settings: MultiStreamSettings,
    ) -> None:
        """Errors: ValueError without a stream."""
        self._turns = Turns(streams)
        self._writes = writes
        self._config = config
        self._room = room
        self._settings = settings
        self._buffer = RecordSetBuffer(settings.buffer_bytes)
        self._timer: asyncio.TimerHandle | None = None
        self._tasks = Tasks("proxy_client.multi_stream_writer")
        self._unanswered: set[asyncio.Future[Written]] = set()
        self._is_closed = False

    async def submit(self, payload: bytes) -> "asyncio.Future[Written]":
        """Take a record; return a future of where it is. It need not be read.

        It waits while `buffer.memory` is full. Errors: ProxyError (LogRecordTooLong), Unavailable
        once closed. Cancel: nothing was taken.
        """
        limit = self._config.record_bytes_max - HEADER_SIZE
        if len(payload) > limit:
            text = f"a record of {len(payload)} bytes; {limit} are taken (max.request.size)"
            raise proxy_error(StatusCode.TOO_LARGE_RECORD, text, "")
        await self._room.wait()
        if self._is_closed:
            raise closed()
        self._room.take(payload)
        future: asyncio.Future[Written] = asyncio.get_running_loop().create_future()
        self._unanswered.add(future)
        future.add_done_callback(lambda done: self._answered(done, payload))
        for full in self._buffer.add(payload, future):
            self._start(full)
        self._set_timer()
        return future

    async def flush(self) -> None:
        """Send what waits; return when every record that was taken is answered."""
        self._send_rest()
        if self._unanswered:
            await asyncio.wait(set(self._unanswered))

    async def close(self) -> None:
        """Flush, and end. Idempotent. Cancel: records without an answer may be written."""
        self._is_closed = True
        try:
            await self.flush()
        finally:
            await self._tasks.close()
            for future in set(self._unanswered):
                _fail(future, closed())

    # ------------------------------------------------------------------ sets

    def _answered(self, done: "asyncio.Future[Written]", payload: bytes) -> None:
        self._unanswered.discard(done)
        self._room.give((payload,))

    def _set_timer(self) -> None:
        if len(self._buffer) and self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(self._settings.flush_ms / 1000, self._send_rest)

    def _send_rest(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if len(self._buffer):
            self._start(self._buffer.take())

    def _start(self, gathered: Gathered) -> None:
        self._tasks.start(self._send(gathered), "set")

    async def _send(self, gathered: Gathered) -> None:
        """Write a set, and answer its records."""
        try:
            stream, first = await self._write_anywhere(pack_record_set(gathered.payloads))
        except CoreError as error:
            for future in gathered.handles:
                _fail(future, error)
            return
        for number, future in enumerate(gathered.handles):
            if not future.done():
                slot = first.slot + number if first.lssn else first.slot
                future.set_result(Written(stream, first._replace(slot=slot)))

    async def _write_anywhere(self, payload: bytes) -> Written:
        """Write a set to the first stream that takes it. Errors: the last ProxyError."""
        settings = self._settings
        streams = self._turns.next()
        race = _Race(self._writes, payload, settings.timeout_ms)
        pauses = speculations_ms(
            settings.speculative_first_ms, settings.speculative_max_ms, settings.timeout_ms
        )
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        try:
            for number, stream in enumerate(streams):
                race.begin(self._tasks, stream)
                until_ms = pauses[number] if number < len(pauses) else settings.timeout_ms
                is_last = number == len(streams) - 1
                left_s = settings.timeout_ms / 1000 if is_last else until_ms / 1000
                written = await race.wait(began_s + left_s - loop.time())
                if written is not None:
                    return written
            raise race.failure()
        finally:
            race.end()


class _Race:
    """The tries of one set."""

    def __init__(self, writes: UnaryWrites, payload: bytes, timeout_ms: int) -> None:
        self._writes = writes
        self._payload = payload
        self._timeout_ms = timeout_ms
        self._running: set[asyncio.Task[None]] = set()
        self._written: Written | None = None
        self._error: ProxyError | None = None

    def begin(self, tasks: Tasks, stream: str) -> None:
        self._running.add(tasks.spawn(self._try(stream), "try"))

    async def wait(self, within_s: float) -> Written | None:
        """Return the first that was written; None when time is over, or when no try is left."""
        loop = asyncio.get_running_loop()
        until_s = loop.time() + within_s
        while self._written is None and self._running:
            left_s = until_s - loop.time()
            if left_s <= 0:
                return None
            _, self._running = await asyncio.wait(
                self._running, timeout=left_s, return_when=asyncio.FIRST_COMPLETED
            )
        return self._written

    def failure(self) -> ProxyError:
        if self._error is not None:
            return self._error
        text = f"no stream took the records within {self._timeout_ms} ms"
        return proxy_error(None, text, "", is_unknown=True)

    def end(self) -> None:
        for task in self._running:
            task.cancel()

    async def _try(self, stream: str) -> None:
        try:
            dlsn = await self._writes.write(
                stream, self._payload, is_record_set=True, timeout_ms=self._timeout_ms
            )
        except ProxyError as error:
            self._error = error
        else:
            self._written = self._written or Written(stream, dlsn)


def _fail(future: "asyncio.Future[Written]", error: CoreError) -> None:
    if not future.done():
        future.set_exception(error)
        future.exception()  # it need not be read
