"""All streams of a write proxy: what a service asks of them, and how they stop.

Invariant: a name has one `Stream` at a time, from the first request until its log is let go; only
then another one is made. So this process claims no stream twice at once.

    request -> Admission -> Stream (made if need be) -> Answer

Source: reference DistributedLog 9.2; DistributedLogServiceImpl, StreamManagerImpl.
"""

import asyncio
import logging
from collections.abc import Coroutine, Sequence
from functools import partial
from typing import Any

from tailrace.core.errors import CoreError, OwnershipAcquireFailed
from tailrace.core.log.namespace import LogNamespace
from tailrace.core.runtime.clock import Clock
from tailrace.core.runtime.listeners import tell
from tailrace.core.runtime.tasks import together
from tailrace.protocol.distributedlog.dlsn import DLSN
from tailrace.proxy.owner.admission import Admission, StreamCounts
from tailrace.proxy.owner.codes import ServerStatus, StatusCode
from tailrace.proxy.owner.config import OwnerConfig
from tailrace.proxy.owner.context import NoEvents, OwnerContext, OwnerEvents, ReservedStream
from tailrace.proxy.owner.idle import IdleRelease
from tailrace.proxy.owner.loads import Load
from tailrace.proxy.owner.location import ProxyLocation
from tailrace.proxy.owner.metrics import AnswerCounts, OwnerMetrics
from tailrace.proxy.owner.operations import (
    CHAIN_BROKEN,
    SUCCESS,
    Answer,
    Heartbeat,
    Operation,
    Truncate,
    Write,
    WriteBulk,
    WriteChain,
    WriterSequence,
    answer_of,
    break_chain,
    is_own_lock,
    set_values,
)
from tailrace.proxy.owner.refusals import ClaimPace
from tailrace.proxy.owner.stream import Stream

logger = logging.getLogger(__name__)

_OWNER = "proxy.streams"
_GOES_NOWHERE = Answer(StatusCode.REQUEST_DENIED, "it is to go to this proxy")


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
        self._counts = AnswerCounts(self.metrics)
        self._context = OwnerContext(namespace, location, config, clock, self.metrics)
        self._events: OwnerEvents = NoEvents() if events is None else events
        self._refused_s = session_timeout_ms * 2 / 3 / 1000
        self._admission = Admission(config, self.metrics, clock.monotonic_s())
        self._pace = ClaimPace(config.claim_pause_ms / 1000)
        self._cached: dict[str, Stream] = {}
        self._acquired: dict[str, None] = {}
        self._claimed = 0
        """Streams that are being claimed, or wait for that."""
        self._idle = IdleRelease(config.idle_ms, config.closed_at_once, clock, self._release_idle)

    def reserve(self, reserved: ReservedStream) -> None:
        """Have no client claim or delete certain streams (REQUEST_DENIED); before any request."""
        self._context = self._context._replace(reserved=reserved)

    # ------------------------------------------------------------------ requests

    def write(
        self,
        stream: str,
        payload: bytes,
        *,
        is_record_set: bool = False,
        writer: WriterSequence | None = None,
    ) -> "asyncio.Future[Answer]":
        """Write a record, or the values of a record set; answer with its DLSN once it is durable.

        Order is that of the calls. `is_record_set`: the payload is DistributedLog's record set.
        `writer`: its number; a record whose number the stream has is not written again: SUCCESS
        with the first one's DLSN, without it if many came since.
        Shape: SUCCESS with the DLSN, of a set that of its first value. Nothing was written with
        FOUND (at `location`), OVER_CAPACITY, TOO_MANY_STREAMS, SERVICE_UNAVAILABLE,
        TOO_LARGE_RECORD, REQUEST_DENIED (the set does not decode, the writer is not valid),
        END_OF_STREAM, LOG_NOT_FOUND, INVALID_STREAM_NAME, WRITE_CANCELLED_EXCEPTION,
        TRANSACTION_OUT_OF_ORDER (numbers before it are missing; an unknown writer begins with 0).
        With any other code the record is in the log or is not; writing it again with its number is
        right, without one may write it twice.
        Errors: none. Cancel: only the waiting ends.
        Cost: as `Stream.submit`; a record set is decoded once.
        Source: DistributedLogServiceImpl.writeWithContext.
        """
        values = set_values(payload) if is_record_set else 0
        if isinstance(values, Answer):
            return self._counts.done(values)
        return self._submit_write(stream, Write(payload, values, writer), 1)

    def write_bulk(
        self,
        stream: str,
        payloads: Sequence[bytes],
        *,
        writer: WriterSequence | None = None,
        chain: WriteChain | None = None,
    ) -> "asyncio.Future[Answer]":
        """Write records that follow each other; answer with what became of each, in `each`.

        `writer`: the number of the first; of those that the stream has each gets its first answer.
        `chain`: of bulks in flight together; behind one that fails none is written. Then the answer
        is the first failure's, with `dlsns` of the records before it, and `each` is empty.
        Shape: SUCCESS with one answer a record, in order; the first that is refused has its code,
        those behind it WRITE_CANCELLED_EXCEPTION. An ownership that is lost, and numbers that leave
        a gap, are the code of all.
        Errors, cancel, cost: as `write`. Source: DistributedLogServiceImpl.writeBulkWithContext.
        """
        if chain is None:
            bulk = WriteBulk(tuple(payloads), writer)
        elif chain.is_broken:
            return self._counts.done(CHAIN_BROKEN)
        else:
            bulk = WriteBulk(tuple(payloads), writer, chain, chain.take())
        return self._submit_write(stream, bulk, len(payloads))

    def truncate(self, stream: str, before: DLSN) -> "asyncio.Future[Answer]":
        """Give up every durable record before a position. Idempotent.

        Writes do not wait for it. Shape: SUCCESS without a DLSN.
        Errors: none. Cancel: only the waiting ends. Cost: a commit or two.
        Source: DistributedLogServiceImpl.truncate.
        """
        return self._submit(stream, Truncate(before))

    def heartbeat(self, stream: str, *, to_readers: bool = False) -> "asyncio.Future[Answer]":
        """Own the stream, if no other proxy does, and answer once it is owned.

        The first one of a stream that this proxy has not written yet writes a control record, so
        that readers see that the stream lives. `to_readers`: each does.
        Errors: none. Cancel: only the waiting ends. Cost: nothing, or an entry.
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
        return self._counts.count(SUCCESS)

    async def release_to(self, stream: str, target: ProxyLocation) -> Answer:
        """Release a stream, then redirect its requests to the proxy that is to claim it.

        For two thirds of a session timeout they get FOUND: else the next one that comes here would
        claim the stream again. Shape: as `release`; REQUEST_DENIED if the target is this proxy.
        Errors, cancel, cost: as `release`.
        """
        if target == self._context.location:
            return self._counts.count(_GOES_NOWHERE)
        found = Answer(StatusCode.FOUND, "it moves to another proxy", target.text)
        if stream in self._cached:
            self._cached[stream].goes_to = found
            await self._let_go(stream)
        else:
            self._redirect(stream, found, found.location)
        return self._counts.count(SUCCESS)

    async def create(self, stream: str) -> Answer:
        """Make a stream; its first request claims it, here or elsewhere.

        Shape: SUCCESS; LOG_EXISTS; INVALID_STREAM_NAME; SERVICE_UNAVAILABLE unless new streams are
        taken; STREAM_UNAVAILABLE: it may be there, ask again. Errors: ConfigError for settings of
        the proxy that no log can have. Cancel: it may be made. Cost: a commit.
        Source: DistributedLogServiceImpl.create.
        """
        refusal = self._admission.refusal_of_change(stream, is_new=stream not in self._cached)
        if refusal is None:
            refusal = await self._try(self._context.namespace.create_log(stream))
        return self._counts.count(SUCCESS if refusal is None else refusal)

    async def delete(self, stream: str) -> Answer:
        """Delete a stream with all its records, after what runs; a former owner is fenced.

        Shape: SUCCESS; FOUND: another proxy has it; LOG_NOT_FOUND; as `create`. Requests that come
        meanwhile get STREAM_UNAVAILABLE. With any other code it may be shorter, or gone; ask again.
        Errors: as `create`. Cancel: it may be shorter, or gone.
        Cost: a request to the bookies and a commit for each segment.
        Source: DistributedLogServiceImpl.delete.
        """
        refusal = self._admission.refusal_of_change(stream, is_new=stream not in self._cached)
        if refusal is None:
            self._admission.deleting.add(stream)  # its log is given up under its writer
            try:
                await self._let_go(stream)
                may = partial(self._context.check_may, stream)
                refusal = await self._try(self._context.namespace.delete_log(stream, may))
            finally:
                self._admission.deleting.discard(stream)
        return self._counts.count(SUCCESS if refusal is None else refusal)

    def owner_of(self, stream: str) -> Answer:
        """Return FOUND with the owner's location, as far as the proxy knows; it claims nothing.

        STREAM_UNAVAILABLE: not known here. Errors: none.
        Source: DistributedLogServiceImpl.getOwner.
        """
        if stream in self._acquired:
            return Answer(StatusCode.FOUND, location=self._context.location.text)
        kept = self._admission.refusals.find(stream, self._now_s())
        if kept is not None and kept.code is StatusCode.FOUND:
            return kept
        return Answer(StatusCode.STREAM_UNAVAILABLE, "the owner is not known here")

    def is_owned(self, stream: str) -> bool:
        """Tell whether the proxy owns a stream."""
        return stream in self._acquired

    @property
    def owned(self) -> list[str]:
        """The names of the streams that the proxy owns, for a handshake."""
        return list(self._acquired)

    def load_of(self, stream: str) -> Load:
        """Return how much is written to a stream of the proxy."""
        return self._admission.loads.of(stream, self._now_s())

    @property
    def status(self) -> ServerStatus:
        """Which requests the proxy takes."""
        return self._admission.status

    def set_accept_new_stream(self, *, accepts: bool) -> None:
        """Take new streams, or only requests for those that the proxy has (WRITE_ONLY).

        Requests for others get SERVICE_UNAVAILABLE. Once `close` was called it changes nothing.
        Source: DistributedLogServiceImpl.setAcceptNewStream.
        """
        self._admission.set_accept_new_stream(accepts=accepts)

    def set_region_stopped(self, *, stopped: bool) -> None:
        """Answer REGION_UNAVAILABLE for streams that the proxy does not have, or claim them again.

        Source: DistributedLog's feature `region_stop_accept_new_stream`.
        """
        self._admission.is_region_stopped = stopped

    def on_proxy_gone(self, location: ProxyLocation) -> None:
        """Redirect no more to a proxy whose registration is gone: its locks go with its session.

        One that signed off, and lets its streams go in turn, is found to own them again.
        Errors: none. Cost: a look at the redirects that are kept.
        """
        self._admission.refusals.forget_owner(location.text)

    async def close(self) -> None:
        """Drain: take no new stream, close all, then be DOWN. Idempotent.

        `proxy.streams.closed.at.once` streams are closed side by side; the others are served until
        it is their turn. Errors: none. Cancel: streams whose turn has come close anyway.
        Cost: `server_writer_close_timeout_ms` for so many, at most, and what the metadata store
        takes to remove a lock. Source: DistributedLogServiceImpl.shutdown.
        """
        self._admission.begin_close()
        await self._idle.close()
        turns = asyncio.Semaphore(self._context.config.closed_at_once)

        async def close_in_turn(stream: Stream) -> None:
            async with turns:
                await stream.close()

        await together([close_in_turn(stream) for stream in self._cached.values()])
        self._admission.status = ServerStatus.DOWN

    def claim_wait_s(self, stream: str) -> float:
        """Return the rest of the pause since the stream's last claim (StreamHome)."""
        return self._pace.begin(stream, self._now_s())

    def on_acquired(self, stream: str) -> None:
        """Take note that the proxy owns it (StreamHome)."""
        self._claimed -= 1
        self._acquired[stream] = None
        self.metrics.streams_acquired = len(self._acquired)
        tell(_OWNER, self._events.on_acquired, stream)

    def on_refused(self, stream: str, error: OwnershipAcquireFailed, answer: Answer) -> None:
        """Give its requests this answer for two thirds of a session timeout (StreamHome)."""
        self.metrics.redirects_total += 1
        is_own = is_own_lock(error, self._context.location)
        self._redirect(stream, answer, self._context.location.text if is_own else answer.location)
        if stream not in self._acquired:
            self._pace.refused(stream)
        if is_own:
            self.metrics.inconsistent_locks_total += 1
            logger.error("lock_of_this_proxy stream=%s owner=%s", stream, error.current_owner)
            tell(_OWNER, self._events.on_inconsistent, stream)

    def on_timed_out(self, stream: str, answer: Answer) -> None:
        """Put it on probation (StreamHome)."""
        probation_s = self._context.config.probation_ms / 1000
        self._admission.refusals.add(stream, answer, self._now_s(), probation_s)

    def on_closed(self, stream: str) -> None:
        """Forget it (StreamHome)."""
        goes_to = self._cached.pop(stream).goes_to
        self._admission.forget(stream)
        self._idle.forget(stream)
        self.metrics.streams_cached = len(self._cached)
        if goes_to is not None:
            self._redirect(stream, goes_to, goes_to.location)
        if stream not in self._acquired:
            self._claimed -= 1
            return
        del self._acquired[stream]
        self.metrics.streams_acquired = len(self._acquired)
        tell(_OWNER, self._events.on_released, stream)

    def _redirect(self, stream: str, answer: Answer, owner: str) -> None:
        """Give its requests this answer for two thirds of a session timeout."""
        self._admission.refusals.add(stream, answer, self._now_s(), self._refused_s, owner)

    def _submit_write(
        self, name: str, operation: Write | WriteBulk, count: int
    ) -> "asyncio.Future[Answer]":
        problem = "" if operation.writer is None else operation.writer.problem(count)
        if problem:
            refusal = Answer(StatusCode.REQUEST_DENIED, problem)
            break_chain(operation, refusal)
            return self._counts.done(refusal)
        return self._submit(name, operation)

    def _submit(self, name: str, operation: Operation) -> "asyncio.Future[Answer]":
        now_s, stream = self._now_s(), self._cached.get(name)
        counts = StreamCounts(len(self._cached), len(self._acquired) + self._claimed)
        admission = self._admission
        refusal = admission.refusal(name, operation, counts, now_s, is_new=stream is None)
        if refusal is not None:
            break_chain(operation, refusal)
            return self._counts.done(refusal)
        admission.take(name, operation, now_s)
        if stream is None:
            stream = self._cached[name] = Stream(name, self, self._context)
            self._claimed += 1
            self.metrics.streams_cached = len(self._cached)
        self._idle.asked(name, now_s)
        answer = stream.submit(operation)
        answer.add_done_callback(self._counts.count_done)
        return answer

    async def _let_go(self, name: str) -> None:
        stream = self._cached.get(name)
        if stream is not None:
            await stream.close()

    async def _release_idle(self, name: str) -> None:
        """Let a stream go unless something of it runs or waits."""
        stream = self._cached.get(name)
        if stream is not None and stream.is_idle:
            self.metrics.idle_streams_total += 1
            logger.info("stream_idle stream=%s", name)
            await stream.close()

    async def _try(self, work: Coroutine[Any, Any, None]) -> Answer | None:
        """Do a change of the namespace; return why it failed, None if it did not."""
        try:
            await work
        except CoreError as error:
            return answer_of(error, self._context.location)
        return None

    def _now_s(self) -> float:
        return self._context.clock.monotonic_s()
