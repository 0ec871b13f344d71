"""The one way of a stream's records to its owner: a WriteStream call, opened again when it ends.

    submit -> RecordQueue -> Records messages, some in flight -> owner -> answers, in order

Records go in the order of the calls. After a redirect, a broken connection or a missing answer
everything unanswered is sent again, in its order. With a writer id and numbers the owner knows what
it has; without them a record may be written twice, as by DistributedLog's own client.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, NamedTuple

from tailrace.core.runtime.clock import Clock
from tailrace.core.runtime.tasks import Tasks
from tailrace.protocol.distributedlog.dlsn import DLSN
from tailrace.protocol.proxy.methods import WRITE_PROXY
from tailrace.protocol.proxy.write_proxy_pb2 import (
    WriterSequence,
    WriteStreamRequest,
    WriteStreamResponse,
)
from tailrace.proxy.client.caller import Asked, closed
from tailrace.proxy.client.config import ClientConfig
from tailrace.proxy.client.errors import Failures, ProxyError, proxy_error
from tailrace.proxy.client.messages import code_of, dlsns_of, records_request, write_context
from tailrace.proxy.client.pending import Pending, RecordQueue, Scope, positions
from tailrace.proxy.client.proxies import Proxies
from tailrace.proxy.client.reactions import Attempts, Then, Trouble, leaves_open
from tailrace.proxy.client.room import RECORD_OVERHEAD_BYTES, Room
from tailrace.proxy.client.transport import Call, CallFailed, Ended
from tailrace.proxy.owner.codes import StatusCode
from tailrace.proxy.routing.ring import Host

_METHOD: Final = WRITE_PROXY.methods["write_stream"]
_ENDED: Final = Asked(StatusCode.SUCCESS, "the call ended in order")

_SCOPES: Final = {
    StatusCode.TOO_LARGE_RECORD: Scope.FIRST,
    StatusCode.OVER_CAPACITY: Scope.BATCH,
    StatusCode.REQUEST_DENIED: Scope.BATCH,
    StatusCode.CHECKSUM_FAILED: Scope.BATCH,
    Trouble.TOO_LARGE: Scope.BATCH,
    Trouble.REFUSED: Scope.BATCH,
}
"""What fails with an answer that another try would not change; all others speak of the stream."""


class Surroundings(NamedTuple):
    """What all writers of a client share."""

    proxies: Proxies
    config: ClientConfig
    clock: Clock
    room: Room
    new_writer_id: Callable[[], bytes]


class StreamWriter:
    """The records of one stream. All calls come from the loop.

    Invariant: each record that was taken is answered once: with its position, or with why not,
    within `delivery.timeout.ms` and one `request.timeout.ms`.
    """

    def __init__(self, stream: str, surroundings: Surroundings) -> None:
        self.stream = stream
        self._proxies, self._config, self._clock, self._room, self._new_id = surroundings
        self._loop = asyncio.get_running_loop()
        self._timeout_s = self._config.request_timeout_ms / 1000
        self._queue = RecordQueue(self._new_id() if self._config.idempotence else b"")
        self._attempts = Attempts()
        self._line = asyncio.Lock()
        """Calls that wait for room wait in line: records keep the order of the calls."""
        self._in_line = 0
        """How many do."""
        self._tasks = Tasks("proxy_client.writer", self._on_failure)
        self._is_running = False
        self._is_closed = False
        self._more = asyncio.Event()
        """Set when there may be something to send."""
        self._limit: asyncio.Timeout | None = None
        """Of the oldest message in flight."""
        self._stopped_rest = 0
        """How many records an answer that ended the call speaks of."""
        self._last = _ENDED
        self._host: Host | None = None

    @property
    def is_idle(self) -> bool:
        """Whether nothing is unanswered, and nothing runs."""
        return not self._queue and not self._is_running and not self._in_line

    def submit_now(
        self, payload: bytes, failures: Failures | None = None
    ) -> "asyncio.Future[DLSN] | None":
        """Take a record if it need not wait, as `submit`; None: `submit` waits, or says why not.

        A plain function: each record passes here, and a coroutine would cost as much as all else.
        Errors: none.
        """
        is_free = not (self._in_line or self._is_closed or self._room.budget.full)
        if is_free and len(payload) <= self._config.record_bytes_max:
            return self._take(payload, failures)
        return None

    async def submit(
        self, payload: bytes, failures: Failures | None = None
    ) -> "asyncio.Future[DLSN]":
        """Take a record; return a future of its position. It need not be read.

        It waits while `buffer.memory` is full. `failures`: keeps the error of the future, too.
        Errors: ProxyError (LogRecordTooLong), Unavailable once the client is closed.
        Cancel: nothing was taken.
        """
        limit = self._config.record_bytes_max
        if len(payload) > limit:
            text = f"a record of {len(payload)} bytes; {limit} are taken (max.request.size)"
            raise proxy_error(StatusCode.TOO_LARGE_RECORD, text, self.stream)
        taken = self.submit_now(payload, failures)
        if taken is not None:
            return taken
        self._in_line += 1
        try:
            async with self._line:
                await self._room.wait()
                if self._is_closed:
                    raise closed()
                return self._take(payload, failures)
        finally:
            self._in_line -= 1

    async def flush(self) -> None:
        """Return when every record that was taken is answered. Errors: none of theirs."""
        async with self._line:
            waited = [one.handle for one in self._queue.records]
        if waited:
            await asyncio.wait(waited)

    async def close(self) -> None:
        """End; records without an answer fail, and may be written. Idempotent."""
        self._is_closed = True
        await self._tasks.close()
        self._queue.broke()
        self._fail(len(self._queue), None, "the client was closed")

    # ------------------------------------------------------------------ taking records

    def _take(self, payload: bytes, failures: Failures | None) -> "asyncio.Future[DLSN]":
        future: asyncio.Future[DLSN] = self._loop.create_future()
        self._room.budget.take(len(payload) + RECORD_OVERHEAD_BYTES)
        queue = self._queue
        if not queue.waiting:
            self._more.set()
        deadline_s = self._clock.monotonic_s() + self._timeout_s
        queue.add(Pending(payload, deadline_s, future, failures=failures))
        if not self._is_running:
            self._is_running = True
            self._tasks.start(self._run(), "run")
        return future

    # ------------------------------------------------------------------ calls

    async def _run(self) -> None:
        """Have calls, one after the other, until nothing is left."""
        redirect: Host | None = None
        try:
            while True:
                self._fail(
                    self._queue.expired(self._clock.monotonic_s()), None, "no answer in time"
                )
                if not self._queue:
                    return
                attempts = self._attempts
                host, wait_ms = self._proxies.choose(self.stream, attempts, redirect)
                redirect = None
                if wait_ms:
                    await asyncio.sleep(wait_ms / 1000)
                if host is None:
                    attempts.tries += 1
                    continue
                attempts.begin(host)
                self._host = host
                self._last = await self._call(host)
                if self._last is _ENDED:
                    self._attempts = Attempts()
                else:
                    redirect = self._settle(host, self._last)
        finally:
            self._is_running = False

    def _settle(self, host: Host, asked: Asked) -> Host | None:
        """Decide on an answer that ended a call; return the host that it names."""
        outcome = asked.outcome
        reaction = self._proxies.learn(self.stream, outcome, host, self._attempts, asked.location)
        if reaction.then is Then.FAIL:
            self._attempts = Attempts()  # what is left is another request, for the same owner
            if not self._begins_again(asked):
                scope = _SCOPES.get(outcome, Scope.ALL)
                counts = {Scope.FIRST: 1, Scope.BATCH: max(1, self._stopped_rest)}
                self._fail(counts.get(scope, len(self._queue)), asked, asked.text)
        return reaction.host

    def _begins_again(self, asked: Asked) -> bool:
        """Go on under another writer id, where the owner knows no more of this one.

        It forgets writers that write nothing for a day, say. What may be written is given up.
        """
        queue = self._queue
        if asked.outcome is not StatusCode.TRANSACTION_OUT_OF_ORDER or not queue.number:
            return False
        unknown = sum(one.is_unknown for one in queue.waiting)
        self._fail(unknown, asked, asked.text)
        if not unknown:
            queue.renew(self._new_id())
        return True

    async def _call(self, host: Host) -> Asked:
        """Have one call; return how it ended. All records that are not written wait then."""
        self._stopped_rest = 0
        try:
            return await self._open_and_write(host)
        except CallFailed as error:
            return Asked(error.trouble, str(error))
        except TimeoutError:
            return Asked(Trouble.TIMED_OUT, f"{self._config.rpc_timeout_ms} ms went by")
        finally:
            self._limit = None
            self._queue.broke()

    async def _open_and_write(self, host: Host) -> Asked:
        head_s = self._queue.waiting[0].deadline_s - self._clock.monotonic_s()
        async with asyncio.timeout(min(self._config.rpc_timeout_ms / 1000, max(0.0, head_s))):
            call = await self._proxies.transport.open(host, _METHOD)
            try:
                await call.send(self._opening())
                answer = await call.receive()
            except BaseException:
                call.cancel()
                raise
        with Ended(call):
            asked = self._asked(answer)
            if asked.outcome is not StatusCode.SUCCESS:
                return asked
            self._proxies.learn(self.stream, StatusCode.SUCCESS, host, Attempts())
            return await self._write(call)

    def _opening(self) -> WriteStreamRequest:
        context = write_context(self.stream, self._attempts.tried_hosts)
        queue = self._queue
        if queue.writer_id:
            sequence = WriterSequence(writer_id=queue.writer_id, sequence=queue.number)
            context.writer.CopyFrom(sequence)
        opening = WriteStreamRequest.Open(stream=self.stream, context=context)
        return WriteStreamRequest(open=opening)

    async def _write(self, call: Call) -> Asked:
        sender = self._tasks.spawn(self._send(call), "send")
        try:
            async with asyncio.timeout(None) as self._limit:
                while True:
                    answer: Any = await call.receive()
                    if answer is None and sender.done() and not self._queue.sent:
                        return _ENDED
                    asked = self._asked(answer)
                    self._take_answer(asked)
                    if asked.outcome is not StatusCode.SUCCESS:
                        return asked
        finally:
            sender.cancel()
            await asyncio.wait([sender])

    def _asked(self, answer: Any) -> Asked:
        if answer is None:
            raise CallFailed(Trouble.BROKEN, "the proxy ended the call")
        header = answer.header
        return Asked(code_of(header), header.error, header.location, answer)

    # ------------------------------------------------------------------ one call

    async def _send(self, call: Call) -> None:
        """Send what waits, in messages, while few enough are in flight."""
        with suppress(CallFailed):  # `receive` raises why
            while await self._has_more():
                for one in self._queue.expire_unsent(self._clock.monotonic_s()):
                    self._answer_failed(one, None, "no answer in time")
                config = self._config
                batch = self._queue.next_batch(config.batch_records, config.batch_bytes)
                if batch is None:
                    continue
                if len(self._queue.sent) == 1:
                    self._watch_oldest()
                payloads = [one.payload for one in batch.records]
                await call.send(records_request(self.stream, batch.id, payloads))
            await call.done_sending()

    async def _has_more(self) -> bool:
        """Wait until a message may be sent; False when the stream has been idle for long."""
        queue = self._queue
        while not queue.waiting or len(queue.sent) >= self._config.in_flight_max:
            self._more.clear()
            try:
                async with asyncio.timeout(self._config.writer_idle_ms / 1000):
                    await self._more.wait()
            except TimeoutError:
                if not queue:
                    return False
        return True

    def _watch_oldest(self) -> None:
        """Give the oldest message its time; none is in flight: no limit."""
        limit = self._limit
        if limit is None or limit.expired():
            return
        loop = asyncio.get_running_loop()
        within_s = self._config.rpc_timeout_ms / 1000
        limit.reschedule(loop.time() + within_s if self._queue.sent else None)

    def _take_answer(self, asked: Asked) -> None:
        response: WriteStreamResponse = asked.answer
        queue = self._queue
        if not queue.sent or response.id != queue.sent[0].id:
            raise CallFailed(Trouble.BROKEN, f"an answer to message {response.id}, not the oldest")
        dlsns = dlsns_of(response.dlsns)
        if asked.outcome is StatusCode.SUCCESS:
            done = queue.succeeded()
        else:
            is_unknown = leaves_open(asked.outcome)
            done, self._stopped_rest = queue.stopped(len(dlsns), is_unknown=is_unknown)
        if done:
            self._attempts = Attempts()
            self._answer_written(done, positions(len(done), dlsns))
        self._watch_oldest()
        self._more.set()

    # ------------------------------------------------------------------ answers

    def _answer_written(self, done: list[Pending], dlsns: list[DLSN]) -> None:
        self._room.give([one.payload for one in done])
        for one, dlsn in zip(done, dlsns, strict=True):
            if not one.handle.done():  # else its caller was cancelled
                one.handle.set_result(dlsn)

    def _answer_failed(self, one: Pending, asked: Asked | None, text: str) -> None:
        self._room.give((one.payload,))
        if not one.handle.done():
            error = self._error(asked, text, is_unknown=one.is_unknown)
            one.handle.set_exception(error)
            one.handle.exception()  # it need not be read
            if one.failures is not None:
                one.failures.note(error)

    def _fail(self, count: int, asked: Asked | None, text: str) -> None:
        """Fail the oldest records, with why, and those that cannot stay without them."""
        if count:
            for one in self._queue.give_up(count, self._new_id()):
                self._answer_failed(one, asked, text)

    def _error(self, asked: Asked | None, text: str, *, is_unknown: bool) -> ProxyError:
        last, host = self._last, self._host
        if asked is None and last is not _ENDED:
            text = f"{text}; the last answer: {last.outcome.name}: {last.text}"
        outcome = None if asked is None else asked.outcome
        return proxy_error(outcome, text, self.stream, host, is_unknown=is_unknown)

    def _on_failure(self, error: Exception) -> None:
        """Answer all records after a fault of ours, which the log has."""
        self._queue.broke()
        self._fail(len(self._queue), None, f"the client failed: {error!r}")
