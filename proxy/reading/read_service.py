"""ReadProxy: reading, the last record, the segments of any stream of a namespace.

    request -> limits -> the stream's feeds -> a cursor -> responses

It knows the contract's messages, and not gRPC: a consumer that does not ask for the next response
gets none made. Source: protocol/proxy/read_proxy.proto; reference DistributedLog 9.6.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Final, TypeVar

from tailrace.core.errors import CoreError, OverCapacity, ReadCancelled
from tailrace.core.log.log import Log
from tailrace.core.log.namespace import LogNamespace
from tailrace.core.runtime.clock import Clock
from tailrace.core.runtime.loop_turns import LoopTurns
from tailrace.core.runtime.tasks import Tasks, together
from tailrace.protocol.proxy.common_pb2 import ResponseHeader
from tailrace.protocol.proxy.read_proxy_pb2 import (
    ListSegmentsRequest,
    ListSegmentsResponse,
    ReadLastRequest,
    ReadLastResponse,
    ReadRequest,
    ReadResponse,
)
from tailrace.proxy.owner.codes import StatusCode
from tailrace.proxy.reading.answers import SEGMENTS_MAX, last_record, segment_messages
from tailrace.proxy.reading.codes import Failure, failure_of, is_retried
from tailrace.proxy.reading.config import ReadConfig
from tailrace.proxy.reading.cursor import Cursor, Records
from tailrace.proxy.reading.feed import Feed, FeedContext, Signal
from tailrace.proxy.reading.message import AT_TAIL_RESPONSE, failure_response
from tailrace.proxy.reading.metrics import ReadMetrics
from tailrace.proxy.reading.ring import RingBudget
from tailrace.proxy.reading.start import find_start, request_problem
from tailrace.proxy.reading.stream_feeds import StreamFeeds

logger = logging.getLogger(__name__)

T = TypeVar("T")

_SUCCESS: Final = ResponseHeader(code=StatusCode.SUCCESS.name)


def _same_name(stream: str) -> str:
    return stream


class ReadService:
    """What a read proxy serves. All calls come from the loop."""

    def __init__(
        self,
        namespace: LogNamespace,
        clock: Clock,
        config: ReadConfig,
        log_of: Callable[[str], str] = _same_name,
    ) -> None:
        """`log_of` returns the log that a stream's name means, and raises no error."""
        self.metrics = ReadMetrics()
        self._namespace = namespace
        self._config = config
        self._log_of = log_of
        budget = RingBudget(config.cache_bytes, config.stream_cache_bytes)
        self._context = FeedContext(config, clock, self.metrics, budget, LoopTurns())
        self._streams: dict[str, StreamFeeds] = {}
        self._closing = Tasks("proxy.reading")
        self._is_closed = False

    # ------------------------------------------------------------------ the methods

    async def read(self, request: ReadRequest) -> AsyncGenerator[ReadResponse | bytes, None]:
        """Give records from a position on, some in each response.

        Shape: responses with SUCCESS, in order, none empty but those that say `at_tail`: the last
        one of a read that ends there, and once whenever a tailing reader has all. A read that fails
        ends with a response that says why, without records. Errors: none. Cancel: closing the
        generator ends it. Cost: nothing but a cursor while no response is asked for.
        """
        self.metrics.requests_total += 1
        problem = request_problem(request)
        if problem is not None:
            yield self._failed(Failure(StatusCode.REQUEST_DENIED, problem))
            return
        try:
            cursor = await self._begin(request)
        except CoreError as error:
            yield self._failed(failure_of(error))
            return
        ends, left, is_bounded = not request.tail, request.records_max, request.records_max > 0
        del request  # a reader that waits holds as little as can be
        try:
            is_over = False
            while not is_over:
                found = await cursor.next(ends=ends, records_max=left)
                if isinstance(found, Records):
                    left -= found.records if is_bounded else 0
                    is_over = is_bounded and not left
                else:
                    is_over = ends or isinstance(found, Failure)
                yield self._response(found)
        finally:
            self._leave(cursor.stream)

    async def read_last(self, request: ReadLastRequest) -> ReadLastResponse:
        """Return the last record that can be read; LOG_EMPTY without one.

        Errors: none. Cancel: nothing is held. Cost: as `last_record`.
        """
        self.metrics.requests_total += 1
        try:
            log = await self._open(request.stream)
            record = await self._insist(lambda: last_record(log))
        except CoreError as error:
            return ReadLastResponse(header=self._failed(failure_of(error)).header)
        if record is None:
            empty = Failure(StatusCode.LOG_EMPTY, f"{request.stream} has no record")
            return ReadLastResponse(header=self._failed(empty).header)
        return ReadLastResponse(header=_SUCCESS, record=record)

    async def list_segments(self, request: ListSegmentsRequest) -> ListSegmentsResponse:
        """Return the segments from a number on, oldest first, 5,000 at most.

        Errors: none. Cancel: nothing is held. Cost: the metadata is read if it changed.
        """
        self.metrics.requests_total += 1
        try:
            log = await self._open(request.stream)
            await self._insist(log.refresh)
        except CoreError as error:
            return ListSegmentsResponse(header=self._failed(failure_of(error)).header)
        first = request.from_log_segment_sequence_number
        wanted = [each for each in log.segments if each.lssn >= first or not first]
        return ListSegmentsResponse(
            header=_SUCCESS,
            segments=segment_messages(wanted[:SEGMENTS_MAX]),
            has_more=len(wanted) > SEGMENTS_MAX,
        )

    async def close(self) -> None:
        """End all reads, with SERVICE_UNAVAILABLE, and refuse others. Idempotent.

        Errors: none. Cancel: they end anyway.
        """
        self._is_closed = True
        feeds = [feed for stream in self._streams.values() for feed in stream.take_feeds()]
        await together([feed.close() for feed in feeds])
        await self._closing.close()

    # ------------------------------------------------------------------ one reader

    async def _begin(self, request: ReadRequest) -> Cursor:
        """Count a reader and find where it begins. Errors: as `_enter` and `find_start`."""
        stream = self._enter(await self._open(request.stream))
        try:
            start = await self._insist(lambda: find_start(stream, request))
        except BaseException:
            self._leave(stream)
            raise
        return Cursor(stream, start, self.metrics)

    def _response(self, found: Records | Signal | Failure) -> ReadResponse | bytes:
        if isinstance(found, Records):
            self.metrics.sent_responses_total += 1
            self.metrics.sent_bytes_total += len(found.data)
            return found.data
        return self._failed(found) if isinstance(found, Failure) else AT_TAIL_RESPONSE

    def _enter(self, log: Log) -> StreamFeeds:
        """Count a reader of a log. Errors: OverCapacity names the limit."""
        stream = self._streams.get(log.name)
        if stream is not None and stream.log is not log:
            stream = None  # its log was deleted, and made again: its readers get LOG_NOT_FOUND
        metrics, config = self.metrics, self._config
        self._check_limit(metrics.readers, config.readers_max, "proxy.read.readers.max")
        if stream is None:
            self._check_limit(len(self._streams), config.streams_max, "proxy.read.streams.max")
            stream = StreamFeeds(log, self._context, self._check_room, self._on_idle)
            self._streams[log.name] = stream
            metrics.streams = len(self._streams)
        limit = config.stream_readers_max
        self._check_limit(stream.readers, limit, "proxy.read.stream.readers.max")
        stream.readers += 1
        metrics.readers += 1
        return stream

    def _leave(self, stream: StreamFeeds) -> None:
        stream.readers -= 1
        self.metrics.readers -= 1
        self._forget_if_unused(stream)

    # ------------------------------------------------------------------ inside

    async def _open(self, name: str) -> Log:
        """Return the log of a stream. Errors: as LogNamespace.open_log; ReadCancelled."""
        self._check_open()
        return await self._insist(lambda: self._namespace.open_log(self._log_of(name)))

    async def _insist(self, step: Callable[[], Awaitable[T]]) -> T:
        """Do a step again while bookies or the metadata store fail it, within the limits."""
        config = self._config
        for attempt in range(config.retries + 1):
            self._check_open()
            try:
                return await step()
            except CoreError as error:
                if attempt == config.retries or not is_retried(error):
                    raise
                self.metrics.retries_total += 1
                logger.info("read_retried error=%r", error)
                await asyncio.sleep(config.retry_pause_s(attempt))
        raise AssertionError("the last attempt returns or raises")

    def _failed(self, failure: Failure) -> ReadResponse:
        self.metrics.failed_requests_total += 1
        return failure_response(*failure)

    def _check_open(self) -> None:
        if self._is_closed:
            raise ReadCancelled("the read proxy stops")

    def _check_limit(self, count: int, limit: int, setting: str) -> None:
        if count >= limit:
            self.metrics.over_capacity_total += 1
            raise OverCapacity(f"{setting}={limit} is reached")

    def _check_room(self) -> None:
        """Make room for one more feed. Errors: OverCapacity, ReadCancelled."""
        self._check_open()
        limit = self._config.feeds_max
        if self.metrics.feeds >= limit:
            for stream in self._streams.values():
                idle = stream.idle_feed()
                if idle is not None:
                    stream.on_idle(idle)
                    return
        self._check_limit(self.metrics.feeds, limit, "proxy.read.feeds.max")

    def _on_idle(self, stream: StreamFeeds, feed: Feed) -> None:
        """Close a feed in the background."""
        if not self._is_closed:
            self._closing.start(feed.close(), "close")
        self._forget_if_unused(stream)

    def _forget_if_unused(self, stream: StreamFeeds) -> None:
        name = stream.log.name
        if not stream.readers and not stream.feeds and self._streams.get(name) is stream:
            del self._streams[name]
            self.metrics.streams = len(self._streams)
