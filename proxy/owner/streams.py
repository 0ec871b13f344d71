"""All streams of a write proxy: which it takes, which it refuses, how it stops.

Invariant: a name has one `Stream` at a time, from the first request until its log is let go; only
then another one is made. So this process claims no stream twice at once.

    request -> status, limits, kept refusals, room -> Stream (made if need be) -> Answer

Source: reference DistributedLog 9.2; DistributedLogServiceImpl, StreamManagerImpl.
"""

import asyncio
import logging
from collections.abc import Coroutine, Sequence
from typing import Any, Protocol

from tailrace.core.errors import CoreError, OwnershipAcquireFailed
from tailrace.core.log.namespace import LogNamespace
from tailrace.core.runtime.clock import Clock
from tailrace.core.runtime.listeners import tell
from tailrace.core.runtime.tasks import together
from tailrace.protocol.distributedlog.dlsn import DLSN
from tailrace.protocol.distributedlog.record_set import unpack_record_set
from tailrace.protocol.errors import DecodeError
from tailrace.proxy.owner.codes import ServerStatus, StatusCode
from tailrace.proxy.owner.config import OwnerConfig
from tailrace.proxy.owner.location import ProxyLocation
from tailrace.proxy.owner.metrics import OwnerMetrics
from tailrace.proxy.owner.operations import (
    SUCCESS,
    Answer,
    Heartbeat,
    Operation,
    Truncate,
    Write,
    WriteBulk,
    answer_of,
    is_own_lock,
)
from tailrace.proxy.owner.rates import Rates
from tailrace.proxy.owner.refusals import ClaimPace, Refusals
from tailrace.proxy.owner.stream import OwnerContext, Stream

logger = logging.getLogger(__name__)

_OWNER = "proxy.streams"

_NOT_ACCEPTED = Answer(StatusCode.SERVICE_UNAVAILABLE, "the proxy takes no new stream")
_DOWN = Answer(StatusCode.SERVICE_UNAVAILABLE, "the proxy is down")
_TOO_MANY = Answer(StatusCode.TOO_MANY_STREAMS, "the proxy has as many streams as it may")
_DELETED = Answer(StatusCode.STREAM_UNAVAILABLE, "the stream is being deleted")
_OVER_SERVICE = Answer(StatusCode.OVER_CAPACITY, "the proxy's limit of writes a second is reached")
_OVER_STREAM = Answer(StatusCode.OVER_CAPACITY, "the stream's limit of writes a second is reached")


class OwnerEvents(Protocol):
    """What the service hears of its streams. Called on the loop."""

    def on_acquired(self, stream: str) -> None:
        """Hear that the proxy owns a stream now."""

    def on_released(self, stream: str) -> None:
        """Hear that the proxy owns it no more, for whatever reason."""

    def on_inconsistent(self, stream: str) -> None:
        """Hear that a stream's lock names this proxy, but belongs to another session than its own.

        Another process runs under this location, or a former run's session is not over yet. Java's
        proxy shuts down.
        """


class NoEvents:
    """For a service that wants to hear nothing."""

    def on_acquired(self, stream: str) -> None:
        """Do nothing."""

    def on_released(self, stream: str) -> None:
        """Do nothing."""

    def on_inconsistent(self, stream: str) -> None:
        """Do nothing."""


class Streams:
    """The streams of one write proxy (StreamHome). All calls come from the loop.

    A request is answered with a value; the futures that are returned never have an exception.
    """

    def __init__(
        self,
        namespace: LogNamespace,
        location: ProxyLocation,
        clock: Clock,
        config: OwnerConfig,
        *,
        session_timeout_ms: int,
        events: OwnerEvents | None = None,
    ) -> None:
        """Serve the streams of a namespace, whose settings are those of `proxy_log_config`.

        Nothing else in this process may write through the namespace. `session_timeout_ms`: that of
        the metadata store's session, as long as which a dead owner keeps its locks.
        """
        self.metrics = OwnerMetrics()
        self._context = OwnerContext(namespace, location, config, clock, self.metrics)
        self._config = config
        self._clock = clock
        self._events: OwnerEvents = NoEvents() if events is None else events
        self._refused_s = session_timeout_ms * 2 / 3 / 1000
        self._status = ServerStatus.WRITE_AND_ACCEPT
        self._is_closing = False
        self._cached: dict[str, Stream] = {}
        self._acquired: dict[str, Stream] = {}
        self._claimed = 0
        """Streams that are being claimed, or wait for that."""
        self._deleting: set[str] = set()
        self._rates: dict[str, Rates] = {}
        now_s = clock.monotonic_s()
        self._service_rates = Rates(config.service_limits, now_s)
        self._refusals = Refusals()
        self._pace = ClaimPace(config.claim_pause_ms / 1000)

    # ------------------------------------------------------------------ requests

    def write(
        self, stream: str, payload: bytes, *, is_record_set: bool = False
    ) -> "asyncio.Future[Answer]":
        """Write a record, or the values of a record set; answer with its DLSN once it is durable.

        Order is that of the calls. `is_record_set`: the payload is DistributedLog's record set.
        Shape: SUCCESS with the DLSN, of a set that of its first value. Nothing was written with
        FOUND (at `location`), OVER_CAPACITY, TOO_MANY_STREAMS, SERVICE_UNAVAILABLE,
        TOO_LARGE_RECORD, REQUEST_DENIED (the set does not decode), END_OF_STREAM, LOG_NOT_FOUND,
        INVALID_STREAM_NAME, WRITE_CANCELLED_EXCEPTION. With any other code the record is in the
        log or is not; writing it again may write it twice.
        Cancel: only the waiting ends. Cost: as `Stream.submit`; a record set is decoded once.
        Source: DistributedLogServiceImpl.writeWithContext.
        """
        values = 0
        if is_record_set:
            try:
                values = len(unpack_record_set(payload))
            except DecodeError as error:
                return self._answered(Answer(StatusCode.REQUEST_DENIED, str(error)))
            if not values:
                return self._answered(Answer(StatusCode.REQUEST_DENIED, "an empty record set"))
        return self._submit(stream, Write(payload, values))

    def write_bulk(self, stream: str, payloads: Sequence[bytes]) -> "asyncio.Future[Answer]":
        """Write records that follow each other; answer with what became of each, in `each`.

        Shape: SUCCESS with one answer a record, in order; the first that is refused has its code,
        those behind it WRITE_CANCELLED_EXCEPTION. An ownership that is lost is the code of all.
        Cancel, cost: as `write`. Source: DistributedLogServiceImpl.writeBulkWithContext.
        """
        return self._submit(stream, WriteBulk(tuple(payloads)))

    def truncate(self, stream: str, before: DLSN) -> "asyncio.Future[Answer]":
        """Give up every durable record before a position. Idempotent.

        Writes that come meanwhile do not wait for it. Shape: SUCCESS without a DLSN.
        Cancel: only the waiting ends. Cost: a commit. Source: DistributedLogServiceImpl.truncate.
        """
        return self._submit(stream, Truncate(before))

    def heartbeat(self, stream: str, *, to_readers: bool = False) -> "asyncio.Future[Answer]":
        """Own the stream, if no other proxy does, and answer once it is owned.

        The first one of a stream that this proxy has not written yet writes a control record, so
        that readers see that the stream lives. `to_readers`: each does.
        Cancel: only the waiting ends. Cost: nothing, or an entry.
        Source: DistributedLogServiceImpl.heartbeatWithOptions.
        """
        return self._submit(stream, Heartbeat(to_readers))

    async def release(self, stream: str) -> Answer:
        """Complete the stream and let it go, so that another proxy may claim it at once.

        What runs is finished first. SUCCESS too for a stream that the proxy does not have.
        Errors: none. Cancel: it is let go anyway. Cost: two commits, at most
        `server_writer_close_timeout_ms`. Source: DistributedLogServiceImpl.release.
        """
        await self._let_go(stream)
        return self._counted(SUCCESS)

    async def create(self, stream: str) -> Answer:
        """Make a stream; its first request claims it, here or elsewhere.

        Shape: SUCCESS; LOG_EXISTS; INVALID_STREAM_NAME; SERVICE_UNAVAILABLE unless new streams are
        taken; STREAM_UNAVAILABLE: it may be there, ask again. Errors: ConfigError for settings of
        the proxy that no log can have. Cancel: it may be made. Cost: a commit.
        Source: DistributedLogServiceImpl.create.
        """
        refusal = self._refusal_of_change(stream)
        if refusal is None:
            refusal = await self._try(self._context.namespace.create_log(stream))
        return self._counted(SUCCESS if refusal is None else refusal)

    async def delete(self, stream: str) -> Answer:
        """Delete a stream with all its records, after what runs; a former owner is fenced.

        Shape: SUCCESS; FOUND: another proxy has it; LOG_NOT_FOUND; as `create`. Requests that come
        meanwhile get STREAM_UNAVAILABLE. With any other code it may be shorter, or gone; ask again.
        Errors: none. Cancel: it may be shorter, or gone.
        Cost: a request to the bookies and a commit for each segment.
        Source: DistributedLogServiceImpl.delete.
        """
        refusal = self._refusal_of_change(stream)
        if refusal is None:
            self._deleting.add(stream)
            try:
                await self._let_go(stream)
                refusal = await self._try(self._context.namespace.delete_log(stream))
            finally:
                self._deleting.discard(stream)
        return self._counted(SUCCESS if refusal is None else refusal)

    def owner_of(self, stream: str) -> Answer:
        """Return FOUND with the owner's location, as far as the proxy knows; it claims nothing.

        STREAM_UNAVAILABLE: not known here. Source: DistributedLogServiceImpl.getOwner.
        """
        if stream in self._acquired:
            return Answer(StatusCode.FOUND, location=self._context.location.text)
        kept = self._refusals.find(stream, self._clock.monotonic_s())
        if kept is not None and kept.code is StatusCode.FOUND:
            return kept
        return Answer(StatusCode.STREAM_UNAVAILABLE, "the owner is not known here")

    @property
    def owned(self) -> list[str]:
        """The names of the streams that the proxy owns, for a handshake."""
        return list(self._acquired)

    # ------------------------------------------------------------------ the proxy's own state

    @property
    def status(self) -> ServerStatus:
        """Which requests the proxy takes."""
        return self._status

    def set_accept_new_stream(self, *, accepts: bool) -> None:
        """Take new streams, or only requests for those that the proxy has (WRITE_ONLY).

        Requests for others get SERVICE_UNAVAILABLE. Once `close` was called it changes nothing.
        Source: DistributedLogServiceImpl.setAcceptNewStream.
        """
        if not self._is_closing:
            accepting = ServerStatus.WRITE_AND_ACCEPT
            self._status = accepting if accepts else ServerStatus.WRITE_ONLY

    async def close(self) -> None:
        """Drain: take no new stream, close all, then be DOWN. Idempotent.

        `proxy.streams.closed.at.once` streams are closed side by side; the others are served until
        it is their turn. Errors: none. Cancel: streams whose turn has come close anyway.
        Cost: `server_writer_close_timeout_ms` for so many, at most, and what the metadata store
        takes to remove a lock. Source: DistributedLogServiceImpl.shutdown.
        """
        self.set_accept_new_stream(accepts=False)
        self._is_closing = True
        turns = asyncio.Semaphore(self._config.closed_at_once)

        async def close_in_turn(stream: Stream) -> None:
            async with turns:
                await stream.close()

        await together([close_in_turn(stream) for stream in self._cached.values()])
        self._status = ServerStatus.DOWN

    # ------------------------------------------------------------------ what streams say

    def claim_wait_s(self, stream: Stream) -> float:
        """Return the rest of the pause since the stream's last claim (StreamHome)."""
        return self._pace.begin(stream.name, self._clock.monotonic_s())

    def on_acquired(self, stream: Stream) -> None:
        """Take note that the proxy owns it (StreamHome)."""
        self._claimed -= 1
        self._acquired[stream.name] = stream
        self.metrics.streams_acquired = len(self._acquired)
        tell(_OWNER, self._events.on_acquired, stream.name)

    def on_refused(self, stream: Stream, error: OwnershipAcquireFailed, answer: Answer) -> None:
        """Give its requests this answer for two thirds of a session timeout (StreamHome)."""
        self.metrics.redirects_total += 1
        self._refusals.add(stream.name, answer, self._clock.monotonic_s(), self._refused_s)
        if is_own_lock(error, self._context.location):
            self.metrics.inconsistent_locks_total += 1
            logger.error("lock_of_this_proxy stream=%s owner=%s", stream.name, error.current_owner)
            tell(_OWNER, self._events.on_inconsistent, stream.name)

    def on_timed_out(self, stream: Stream, answer: Answer) -> None:
        """Put it on probation (StreamHome)."""
        probation_s = self._config.probation_ms / 1000
        self._refusals.add(stream.name, answer, self._clock.monotonic_s(), probation_s)

    def on_closed(self, stream: Stream) -> None:
        """Forget it (StreamHome)."""
        del self._cached[stream.name]
        self._rates.pop(stream.name, None)
        self.metrics.streams_cached = len(self._cached)
        if self._acquired.pop(stream.name, None) is None:
            self._claimed -= 1
            return
        self.metrics.streams_acquired = len(self._acquired)
        tell(_OWNER, self._events.on_released, stream.name)

    # ------------------------------------------------------------------ admission

    def _submit(self, name: str, operation: Operation) -> "asyncio.Future[Answer]":
        refusal = self._refusal(name, operation)
        if refusal is not None:
            return self._answered(refusal)
        if operation.records:
            self._take_rates(name, operation)
        answer = self._stream(name).submit(operation)
        answer.add_done_callback(self._count)
        self.metrics.requests_total += 1
        return answer

    def _answered(self, answer: Answer) -> "asyncio.Future[Answer]":
        """Return a future that is done."""
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        future.set_result(self._counted(answer))
        return future

    def _counted(self, answer: Answer) -> Answer:
        self.metrics.requests_total += 1
        self.metrics.failed_requests_total += answer.code is not StatusCode.SUCCESS
        return answer

    async def _let_go(self, name: str) -> None:
        stream = self._cached.get(name)
        if stream is not None:
            await stream.close()

    async def _try(self, work: Coroutine[Any, Any, None]) -> Answer | None:
        """Do a change of the namespace; return why it failed, None if it did not."""
        try:
            await work
        except CoreError as error:
            return answer_of(error, self._context.location)
        return None

    def _refusal_of_change(self, name: str) -> Answer | None:
        """Return why a stream is neither made nor deleted here; None: it may be."""
        if self._status is ServerStatus.DOWN:
            return _DOWN
        if name in self._deleting:
            return _DELETED
        if name not in self._cached and self._status is not ServerStatus.WRITE_AND_ACCEPT:
            return _NOT_ACCEPTED
        return None

    def _count(self, answer: "asyncio.Future[Answer]") -> None:
        if answer.cancelled() or answer.result().code is not StatusCode.SUCCESS:
            self.metrics.failed_requests_total += 1

    def _refusal(self, name: str, operation: Operation) -> Answer | None:
        """Return why a request is refused before its stream hears of it; None: it is not."""
        if self._status is ServerStatus.DOWN:
            return _DOWN
        if name in self._deleting:
            return _DELETED
        now_s = self._clock.monotonic_s()
        kept = self._refusals.find(name, now_s)
        if kept is not None:
            return kept
        if name not in self._cached:
            refusal = self._refusal_of_new()
            if refusal is not None:
                return refusal
        return self._over_rate(name, now_s) if operation.records else None

    def _refusal_of_new(self) -> Answer | None:
        if self._status is not ServerStatus.WRITE_AND_ACCEPT:
            return _NOT_ACCEPTED
        acquired_max, cached_max = self._config.acquired_max, self._config.cached_max
        held = len(self._acquired) + self._claimed
        if 0 < acquired_max <= held or 0 < cached_max <= len(self._cached):
            self.metrics.too_many_streams_total += 1
            return _TOO_MANY
        return None

    def _over_rate(self, name: str, now_s: float) -> Answer | None:
        over: Answer | None = None
        if self._service_rates.is_over(now_s):
            over = _OVER_SERVICE
        elif name in self._rates and self._rates[name].is_over(now_s):
            over = _OVER_STREAM
        if over is not None:
            self.metrics.hard_limit_exceeded_total += 1
        return over

    def _take_rates(self, name: str, operation: Operation) -> None:
        now_s = self._clock.monotonic_s()
        if name not in self._rates:
            self._rates[name] = Rates(self._config.stream_limits, now_s)
        taken = operation.records, operation.size_bytes
        above = [rates.take(*taken, now_s) for rates in (self._service_rates, self._rates[name])]
        self.metrics.soft_limit_exceeded_total += any(above)
        self.metrics.records_total += operation.records
        self.metrics.record_bytes_total += operation.size_bytes

    def _stream(self, name: str) -> Stream:
        stream = self._cached.get(name)
        if stream is None:
            stream = self._cached[name] = Stream(name, self, self._context)
            self._claimed += 1
            self.metrics.streams_cached = len(self._cached)
        return stream
