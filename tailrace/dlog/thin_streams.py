"""What a thin client opens: readers and writers of streams; and values that it gives."""

import asyncio
from typing import NamedTuple, Self

from tailrace.core.errors import EndOfStream
from tailrace.dlog.records import LogRecord
from tailrace.protocol.distributedlog.dlsn import DLSN
from tailrace.protocol.ids import Buffer, TxId
from tailrace.protocol.proxy import read_proxy_pb2
from tailrace.proxy.client.client import ProxyClient
from tailrace.proxy.client.errors import Failures
from tailrace.proxy.client.messages import dlsn_of
from tailrace.proxy.client.multi_stream_writer import MultiStreamWriter as _MultiStreamWriter
from tailrace.proxy.client.multi_stream_writer import Written
from tailrace.proxy.client.record_reader import RecordReader


class Segment(NamedTuple):
    """A segment of a stream, as a read proxy lists it. Source: LogSegmentMetadata."""

    lssn: int
    first_txid: TxId
    last_txid: TxId | None
    """None while it is in progress, as the three below."""
    last_dlsn: DLSN | None
    record_count: int | None
    completion_time_ms: int | None
    in_progress: bool
    truncation_status: str
    """ACTIVE, PARTIALLY_TRUNCATED or TRUNCATED."""
    min_active_dlsn: DLSN | None
    """The first record that is kept, of a segment that is truncated in part."""


class ThinReader:
    """Reads one stream; `ThinClient.read` opens it. Several callers share its records.

    Each record comes once, in order, whatever proxies come and go; an error ends nothing.
    """

    def __init__(self, reader: RecordReader, client: ProxyClient) -> None:
        self._reader = reader
        self._client = client
        self._turn = asyncio.Lock()

    async def read_next(self) -> LogRecord:
        """Return the next record, once there is one.

        Errors: ProxyError of these kinds: EndOfStream behind a sealed stream's last record, and at
        the tail for a reader that does not wait; LogTruncated: what comes next was deleted;
        LogNotFound; OverCapacity; Unavailable: no proxy has answered for `delivery.timeout.ms`.
        ReadCancelled once it is closed. The same call may be tried again.
        Cancel: nothing is lost.
        """
        found = await self.read_bulk(1)
        if not found:
            raise EndOfStream(f"stream {self._reader.stream!r}: the reader does not wait for more")
        return found[0]

    async def read_bulk(self, count: int, timeout_s: float | None = None) -> list[LogRecord]:
        """Return the next records, `count` at most, as soon as there are any.

        `timeout_s`: how long to wait for the first; None: for ever.
        Shape: in order; [] when the time is over, or at the tail for a reader that does not wait.
        Errors: as `read_next`; ValueError for a count below 1. Cancel: nothing is lost.
        """
        if count < 1:
            raise ValueError(f"{count} records cannot be read")
        try:
            async with asyncio.timeout(timeout_s), self._turn:
                await self._reader.fill()
        except TimeoutError:
            return []
        ready = self._reader.ready
        return [log_record(ready.popleft()) for _ in range(min(count, len(ready)))]

    def __aiter__(self) -> Self:
        """Iterate over the records; stop at a sealed stream's end, or where reading ends."""
        return self

    async def __anext__(self) -> LogRecord:
        """Return the next record. Errors, cancel: as `read_next`."""
        ready = self._reader.ready
        while not ready:
            try:
                async with self._turn:
                    await self._reader.fill()
            except EndOfStream:
                raise StopAsyncIteration from None
            if self._reader.is_at_end and not ready:
                raise StopAsyncIteration
        return log_record(ready.popleft())

    async def close(self) -> None:
        """Close it; calls that read from it raise ReadCancelled. Idempotent. Errors: none."""
        await self._client.close_reader(self._reader)


class ThinWriter:
    """Writes one stream with many records in flight; `ThinClient.open_writer` opens it.

    Records keep the order of the calls. Several writers of one stream, in one client, share its
    way. What waits goes into one message, so throughput grows with what is in flight.
    """

    def __init__(self, stream: str, client: ProxyClient) -> None:
        self._stream = stream
        self._client = client
        self._failures = Failures()
        self._is_closed = False

    @property
    def stream(self) -> str:
        """The stream that it writes."""
        return self._stream

    async def write(self, payload: Buffer) -> DLSN:
        """Write a record; return its position once it is durable.

        Errors, cancel: as `ThinClient.write`. Cost: that of `submit`, and a round trip.
        """
        self._check_open()
        return await (await self._client.writer(self._stream).submit(bytes(payload)))

    async def submit(self, payload: Buffer) -> "asyncio.Future[DLSN]":
        """Take a record; return a future of its position, done when it is durable.

        It waits while `buffer.memory` bytes have no answer. The future need not be read: `flush`
        and `close` raise as well. Errors: as `write`, at once where nothing was taken, else in the
        future. Cancel: nothing was taken. Cost: 5 us of CPU.
        """
        self._check_open()
        record, writer = bytes(payload), self._client.writer(self._stream)
        taken = writer.submit_now(record, self._failures)
        return await writer.submit(record, self._failures) if taken is None else taken

    async def flush(self) -> None:
        """Return once every record that was taken is durable.

        Errors: the first ProxyError of a submitted record that no `flush` has raised.
        Cancel: only the waiting ends.
        """
        await self._client.writer(self._stream).flush()
        self._failures.raise_first()

    async def close(self) -> None:
        """Flush, and end. Idempotent. Errors, cancel: as `flush`."""
        if self._is_closed:
            return
        self._is_closed = True
        await self.flush()

    def _check_open(self) -> None:
        if self._is_closed:
            raise ValueError(f"the writer of {self._stream!r} is closed")


class MultiStreamWriter:
    """Writes each record to one of several streams; `ThinClient.multi_stream_writer` opens it.

    Records are gathered into sets (16 KB, 2 ms), which go to the streams in turn. One that is not
    answered soon goes to another stream as well: a record may be in two streams.
    Source: DistributedLogMultiStreamWriter.
    """

    def __init__(self, writer: _MultiStreamWriter, client: ProxyClient) -> None:
        self._writer = writer
        self._client = client

    async def write(self, payload: Buffer) -> Written:
        """Write a record; return stream and position once it is durable.

        Errors: ProxyError; its kind LogRecordTooLong: nothing was written. Of others the record may
        be written. Cancel: only the waiting ends.
        """
        return await (await self.submit(payload))

    async def submit(self, payload: Buffer) -> "asyncio.Future[Written]":
        """Take a record; return a future of where it is. Errors, cancel: as `ThinWriter.submit`."""
        return await self._writer.submit(bytes(payload))

    async def flush(self) -> None:
        """Send what waits; return when every record that was taken is answered. Errors: none."""
        await self._writer.flush()

    async def close(self) -> None:
        """Flush, and end. Idempotent. Errors: none: each record's future has its own."""
        await self._client.close_multi_stream_writer(self._writer)


def log_record(found: read_proxy_pb2.LogRecord) -> LogRecord:
    """Return a record of a message."""
    sequence_id = found.sequence_id if found.HasField("sequence_id") else None
    return LogRecord(dlsn_of(found.dlsn), found.transaction_id, sequence_id, found.payload)


def segment(found: read_proxy_pb2.LogSegment) -> Segment:
    """Return a segment of a message."""

    def given(name: str) -> bool:
        return found.HasField(name)

    return Segment(
        lssn=found.log_segment_sequence_number,
        first_txid=found.first_transaction_id,
        last_txid=found.last_transaction_id if given("last_transaction_id") else None,
        last_dlsn=dlsn_of(found.last_dlsn) if given("last_dlsn") else None,
        record_count=found.record_count if given("record_count") else None,
        completion_time_ms=found.completion_time_ms if given("completion_time_ms") else None,
        in_progress=found.in_progress,
        truncation_status=read_proxy_pb2.LogSegment.TruncationStatus.Name(found.truncation_status),
        min_active_dlsn=dlsn_of(found.min_active_dlsn) if given("min_active_dlsn") else None,
    )
