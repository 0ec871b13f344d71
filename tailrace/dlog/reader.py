"""Reading a log: every record from a position on, once, in order, and then those that come."""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final, Self

from tailrace.core.errors import EndOfStream
from tailrace.core.log.reader import LogReader as CoreReader
from tailrace.core.log.segments import SegmentList
from tailrace.dlog.records import LogRecord, log_records

_BYTES_AT_ONCE: Final = 256 * 1024
"""Records that a reader holds for its caller; read-ahead holds more of them, unpacked."""


class LogReader:
    """Reads from one position on; `Log.open_reader` opens it. Several callers share its records.

    It never gives out a record that is not durable, and none twice. An error ends nothing: what was
    read before it is given out first, and the same call may be tried again.
    Source: AsyncLogReader.
    """

    def __init__(
        self,
        reader: CoreReader,
        segments: Callable[[], SegmentList],
        on_closed: Callable[["LogReader"], None],
    ) -> None:
        self._reader = reader
        self._segments = segments
        self._on_closed = on_closed
        self._turn = asyncio.Lock()
        self._ready: deque[LogRecord] = deque()
        """What was read and not given out; the blocking face takes it from here."""

    async def read_next(self) -> LogRecord:
        """Return the next record, once there is one.

        Errors: EndOfStream behind the last record of a sealed log; LogTruncated when the segment
        was purged under the reader; BookieUnavailable, CorruptData, LedgerNotFound; IdleReader;
        ReadCancelled once it is closed. Cancel: nothing is lost.
        Source: AsyncLogReader.readNext.
        """
        return (await self.read_bulk(1))[0]

    async def read_bulk(self, count: int, timeout_s: float | None = None) -> list[LogRecord]:
        """Return the next records, `count` at most, as soon as there are any.

        `timeout_s`: how long to wait for the first. None: for ever; 0: for none, so that [] means
        that the reader is at the tail. Shape: in order; [] only when the time is over.
        Errors: as `read_next`; ValueError for a count below 1. Cancel: nothing is lost.
        Source: AsyncLogReader.readBulk, which waits for the number and not for the first.
        """
        if count < 1:
            raise ValueError(f"{count} records cannot be read")
        await self._fill(timeout_s)
        ready = self._ready
        return [ready.popleft() for _ in range(min(count, len(ready)))]

    async def wait_for_more(self, timeout_s: float | None = None) -> bool:
        """Wait until there is a record to read, and take none; False when the time is over.

        Unit: seconds, as in `read_bulk`. Errors, cancel: as `read_next`.
        """
        await self._fill(timeout_s)
        return bool(self._ready)

    def __aiter__(self) -> Self:
        """Iterate over the records; at the tail wait for more, behind a sealed log's end stop."""
        return self

    async def __anext__(self) -> LogRecord:
        """Return the next record. Errors, cancel: as `read_next`."""
        while not self._ready:
            try:
                await self._fill(None)
            except EndOfStream:
                raise StopAsyncIteration from None
        return self._ready.popleft()

    async def close(self) -> None:
        """Close it; calls that read from it raise ReadCancelled. Idempotent. Errors: none.

        Cancel: it is closed, only the waiting ends. Source: AsyncCloseable.asyncClose.
        """
        self._ready.clear()
        try:
            await self._reader.close()
        finally:
            self._on_closed(self)

    async def _fill(self, timeout_s: float | None) -> None:
        """Have records in `_ready`, if there are any in time. Errors, cancel: as `read_next`."""
        if timeout_s is None or timeout_s <= 0:
            await self._read_on(waits=timeout_s is None)
            return
        try:
            async with asyncio.timeout(timeout_s):
                await self._read_on(waits=True)
        except TimeoutError:
            return

    async def _read_on(self, *, waits: bool) -> None:
        async with self._turn:
            while not self._ready:
                entries = await self._reader.read_entries(_BYTES_AT_ONCE)
                self._ready.extend(log_records(self._segments(), entries))
                if not self._ready:
                    if not waits:
                        return
                    await self._reader.wait_for_more()
