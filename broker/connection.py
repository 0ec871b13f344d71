"""One client connection: frames to requests, requests to handlers, answers back in order.

Produces run side by side and are enqueued in arrival order; of all other requests one runs at a
time, as in Kafka, and the rest wait as undecoded frames. So one connection makes at most one large
answer, and none while its client does not drain the last one, or waits for a quota.
Flow: FrameChannel -> on_frame -> handler -> InFlight -> Outbox -> FrameChannel.send.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from tailrace.broker.charging import charged_call, charged_frame, frame_of
from tailrace.broker.context import RequestContext
from tailrace.broker.errors import CloseConnection, KafkaError, error_code
from tailrace.broker.handlers import HANDLERS, Deferred, Handler
from tailrace.broker.in_flight import InFlight
from tailrace.broker.listeners import ConnectionInfo, Endpoint
from tailrace.broker.outbox import Outbox
from tailrace.broker.quotas.request_quota import RequestQuota
from tailrace.broker.refusals import error_response, unsupported_frame
from tailrace.broker.sasl_door import Behind, SaslDoor
from tailrace.broker.serial_requests import SerialRequests
from tailrace.broker.throttle import Throttle
from tailrace.core.errors import CoreError
from tailrace.core.runtime.net import HOLD_THROTTLE, HOLD_USER, FrameChannel
from tailrace.protocol.errors import ProtocolError, UnsupportedVersion
from tailrace.protocol.ids import Buffer
from tailrace.protocol.kafka.codec import decode_request, decode_request_steps, is_long
from tailrace.protocol.kafka.header import (
    UnsupportedRequest,
    decode_request_header,
    response_frame,
)
from tailrace.protocol.kafka.steps import Steps

if TYPE_CHECKING:
    from tailrace.broker.connection_owner import ConnectionOwner

logger = logging.getLogger(__name__)

LONG_BYTES: Final = 4096
"""A longer request may have more elements than are decoded at once."""


class KafkaConnection:
    """A connection from the first byte to the last; a fault in it ends it and nothing else."""

    def __init__(
        self, owner: "ConnectionOwner[Any]", listener: str, stranger_since_s: float | None = None
    ) -> None:
        self.info = ConnectionInfo("?", 0, listener)
        self._owner = owner
        self._broker = owner.broker
        self._metrics = owner.broker.metrics
        self._quotas = owner.broker.quotas.clients
        self._limits = owner.broker.config.network
        self._outbox = Outbox(self._limits, owner.requests, owner.broker.unsent)
        self._throttle = Throttle(self._quotas.metrics, self._go_on)
        self._serial = SerialRequests(self._run, self._is_ready)
        self._channel: FrameChannel | None = None
        self._stopping = False
        behind = Behind(lambda: self.info, partial(setattr, self, "info"), self._send, self._end)
        self._sasl = None if stranger_since_s is None else SaslDoor(owner, behind, stranger_since_s)

    # -- FrameUser --------------------------------------------------------------------------------

    def on_open(self, channel: FrameChannel) -> None:
        """Start, or refuse one connection too many."""
        self._channel = channel
        self._outbox.open(channel)
        host, _, port = channel.peer.rpartition(":")
        if host:  # else it is gone already, and nobody can say who it was
            reached = channel.local and Endpoint(*channel.local)
            self.info = ConnectionInfo(host, int(port), self.info.listener, reached)
        if self._sasl is not None:
            self._sasl.open(channel)
        if refusal := self._owner.opened(self, channel.certificate):
            channel.abort(refusal)

    def on_frame(self, frame: memoryview) -> None:  # noqa: PLR0915 - hot: few calls
        """Take a request; run it now or when its turn comes. Errors: ProtocolError closes."""
        if self._sasl is not None and self._sasl.takes(frame):
            return
        size = len(frame)
        self._outbox.take(size)
        metrics = self._metrics
        metrics.requests_total += 1
        metrics.request_bytes_total += size
        try:
            header, body_at = decode_request_header(frame)
        except UnsupportedRequest as error:
            self._answer_unsupported(frame, error)
            self._outbox.hold_if_full()
            return
        except ProtocolError:
            self._outbox.give_back(size)
            raise
        item = InFlight(self, header, None, body_at, size)
        self._outbox.turns.turns.append(item)
        handler = HANDLERS.get(header.api_key)
        if handler is None:
            raise UnsupportedVersion(f"API {header.api_key} has no handler")
        if self._broker.faults is not None:
            handler = self._broker.faults.handler_of(handler)
        item.handler = handler
        if handler.pipelined:
            if self._sasl is not None:
                self._sasl.check(header.api_key)
            request = decode_request(handler.api, header.api_version, frame[body_at:])
            self._call(item, handler, request)
        else:
            item.frame = frame
            self._serial.add(item)
        self._outbox.hold_if_full()

    def on_drained(self) -> None:
        """Go on with the requests that waited for the client to take its answers."""
        self._outbox.drained()
        self._serial.go_on()

    def on_close(self, error: Exception | None) -> None:
        """Drop what is in flight: appends go on, only their answers have nowhere to go."""
        self._channel = None
        self._throttle.cancel()
        self._outbox.drop()
        self._serial.clear()
        if self._sasl is not None:
            self._sasl.close()
        self._owner.closed(self)

    @property
    def idle_since_s(self) -> float:
        """When a byte last came in; now, while a request is in flight."""
        if len(self._outbox.turns) or self._channel is None:
            return self._owner.now_s()
        return self._channel.last_active_s

    @property
    def in_flight(self) -> int:
        """Requests that will be answered: those that wait for their turn will not when it stops."""
        return len(self._outbox.turns) - (len(self._serial) if self._stopping else 0)

    def check(self, now_s: float) -> None:
        """Answer requests that are past their deadline; cut a client that is stuck."""
        for item in self._outbox.turns.pending():
            if item.deadline_s <= now_s:
                self._metrics.requests_expired_total += 1
                if item.build is not None:
                    self.answer(item, item.build)
        if (channel := self._channel) is None:
            return
        stalled = channel.is_stalled(now_s, hurry=self._broker.unsent.full)
        hoards = self._serial.hoards(now_s, is_throttled=self._throttle.is_on)
        hoards = hoards and self._owner.requests.full
        if stalled or hoards:
            self._metrics.connections_cut_total += 1
            channel.abort("no progress" if stalled else "too much waits behind one request")
        elif self._sasl is not None and self._sasl.is_late(now_s):
            channel.abort("not authenticated in time")
        elif now_s - self.idle_since_s > self._limits.idle_ms_max / 1000:
            logger.debug("connection idle peer=%s", channel.peer)
            channel.close()

    def stop_reading(self) -> None:
        """Take no more requests: the broker is stopping."""
        self._stopping = self._outbox.closed = True
        if self._channel is not None:
            self._channel.hold(HOLD_USER)
        for item in self._outbox.turns.pending():
            item.abandon()

    def hold_back(self) -> None:
        """Take no requests until `let_in`: there are too many new connections."""
        if self._channel is not None:
            self._channel.hold(HOLD_THROTTLE)

    def let_in(self) -> None:
        """Take requests."""
        if self._sasl is not None:
            self._sasl.restart_time()
        if self._channel is not None:
            self._channel.release(HOLD_THROTTLE)

    def cut(self, reason: str) -> None:
        """Close at once; what is unsent is lost, and nothing in flight is answered."""
        if self._channel is not None:
            self._channel.abort(reason)

    def close(self) -> None:
        """Send what is written and close."""
        if self._channel is not None:
            self._channel.close()

    # -- running ----------------------------------------------------------------------------------

    def _run(self, item: InFlight) -> None:
        """Run a request whose turn came. Errors: ProtocolError, and whatever our own bugs raise."""
        frame, header, handler = item.frame, item.header, item.handler
        assert frame is not None
        assert handler is not None
        item.frame = None
        if self._sasl is not None and not self._sasl.lets_pass(header.api_key):
            item.task = self._owner.spawn(self._sasl.answer_again(item, frame))
            return
        body = frame[item.body_at :]
        if len(body) > LONG_BYTES:
            item.task = self._owner.spawn(self._run_long(item, handler, body))
        else:
            self._call(item, handler, decode_request(handler.api, header.api_version, body))

    async def _run_long(self, item: InFlight, handler: Handler, body: memoryview) -> None:
        """Decode a request that may have many elements in steps, then call its handler."""
        steps = decode_request_steps(handler.api, item.header.api_version, body)
        try:
            request = await self._broker.turns.run(steps)
            if item.parts is None:  # else the connection went meanwhile
                self._call(item, handler, request)
        except ProtocolError as error:
            self._end(item, str(error))
        except asyncio.CancelledError:
            self._end(item, "the broker stops")
            raise
        except Exception:
            logger.exception("request failed api=%s", handler.api.name)
            self._end(item, "request failed")

    def _call(  # noqa: PLR0912 - hot: waiting is here and not behind a call
        self, item: InFlight, handler: Handler, request: Any
    ) -> None:
        """Call the handler with what was asked. Errors: whatever our own bugs raise."""
        header = item.header
        quotas = self._quotas
        quota = item.quota = (
            quotas.of_request(self.info.user, header.client_id) if quotas.enforced else None
        )
        context = RequestContext(self._broker, header, self.info, quota)
        try:
            if quota is None:
                answer = handler.function(context, request)
            else:
                answer = charged_call(quota, handler, context, request, item.size - item.body_at)
                self._wait_for(quota)
        except (KafkaError, CoreError) as error:
            answer = self._error_response(item, handler, error)
        except CloseConnection as reason:
            self._end(item, str(reason))
            return
        if type(answer) is Deferred:
            item.build = answer.build
            if answer.timeout_s is not None:
                item.deadline_s = self._owner.now_s() + answer.timeout_s
            if handler.pipelined:
                item.appends = answer.future
            answer.future.add_done_callback(item.on_done)
        elif asyncio.iscoroutine(answer):
            item.task = self._owner.spawn(self._wait(item, handler, answer))
        else:
            self._answer(item, answer)

    async def _wait(
        self, item: InFlight, handler: Handler, answer: Coroutine[Any, Any, Any]
    ) -> None:
        """Run a handler that waits; the fault boundary of its task."""
        try:
            response = await (answer if item.quota is None else item.quota.timed(answer))
        except (KafkaError, CoreError) as error:
            response = self._error_response(item, handler, error)
        except CloseConnection as reason:
            self._end(item, str(reason))
            return
        except asyncio.CancelledError:
            self._end(item, "the broker stops")
            raise
        except Exception:
            logger.exception("handler failed api=%s", handler.api.name)
            self._end(item, "handler failed")
            return
        self.answer(item, lambda: response)

    def answer(self, item: InFlight, build: Callable[[], Any]) -> None:
        """Build and send an answer outside of any request's call; the fault boundary of callbacks.

        Does nothing if the request was answered before, or its connection went.
        """
        if item.parts is not None:
            return
        try:
            if item.quota is None:
                response = build()
            else:
                with item.quota:
                    response = build()
            self._answer(item, response)
        except CloseConnection as reason:
            self._end(item, str(reason))
        except ProtocolError as error:  # of a request that waited for this one
            self._end(item, str(error))
        except Exception:
            logger.exception("answer failed client=%s", item.header.client_id)
            self._end(item, "answer failed")

    def _answer(self, item: InFlight, response: Any) -> None:
        """Make the answer's bytes and send all that may leave now; None is no answer."""
        item.build = None
        header, handler, quota = item.header, item.handler, item.quota
        if response is None and quota is None:
            self._send(item, [])
            return
        assert handler is not None
        if quota is None and handler.pipelined and not is_long(response):
            version, correlation_id = header.api_version, header.correlation_id
            self._send(item, response_frame(handler.api, version, correlation_id, response))
            return
        steps = frame_of(handler, header, response)
        if quota is not None:
            context = RequestContext(self._broker, header, self.info, quota)
            steps = charged_frame(quota, handler, context, response)
        try:
            next(steps)
        except StopIteration as done:
            self._send(item, done.value)
        else:
            item.task = self._owner.spawn(self._go_on_answering(item, steps))

    async def _go_on_answering(self, item: InFlight, steps: Steps[list[Buffer]]) -> None:
        """Make the rest of a long answer in steps, and send it."""
        try:
            self._send(item, await self._broker.turns.run(steps))
        except ProtocolError as error:  # of a request that waited for this one
            self._end(item, str(error))
        except asyncio.CancelledError:
            self._end(item, "the broker stops")
            raise
        except Exception:
            logger.exception("answer failed client=%s", item.header.client_id)
            self._end(item, "answer failed")

    def _send(self, item: InFlight, parts: list[Buffer]) -> None:
        """Send an answer when its turn comes, and start what waited for it."""
        if item.parts is not None:
            return  # the connection went meanwhile
        item.parts = parts
        if item.quota is not None:
            self._wait_for(item.quota)
        if self._serial.finish(item):
            self._outbox.flush()
            self._serial.go_on()
        else:
            self._outbox.flush_soon()

    def _wait_for(self, quota: RequestQuota) -> None:
        """Let the client wait if it went over a quota."""
        if quota.throttle_ms and self._channel is not None:
            self._throttle.extend(self._channel, quota.throttle_ms)

    def _go_on(self) -> None:
        """Start what waited for a quota; the fault boundary of that timer."""
        try:
            self._serial.go_on()
        except ProtocolError as error:
            self.cut(str(error))
        except Exception:
            logger.exception("request failed peer=%s", self.info.host)
            self.cut("request failed")

    def _is_ready(self) -> bool:
        """Whether the client takes its answers, and need not wait."""
        channel = self._channel
        if channel is None or self._stopping:
            return False
        return not channel.write_blocked and not self._throttle.is_on

    def _answer_unsupported(self, frame: memoryview, error: UnsupportedRequest) -> None:
        """Tell a client which ApiVersions are spoken; for anything else close, as Kafka does."""
        parts = unsupported_frame(error.header)
        if parts is None:
            self._outbox.give_back(len(frame))
            raise error
        item = InFlight(self, error.header, None, 0, len(frame))
        item.parts = parts
        self._outbox.turns.turns.append(item)
        self._outbox.flush()

    def _error_response(
        self, item: InFlight, handler: Handler, error: KafkaError | CoreError
    ) -> Any:
        """Return a response that says only the error; an API without a place for it is closed."""
        logger.info("request failed api=%s error=%s", handler.api.name, error)
        response = error_response(handler.api, item.header.api_version, error)
        if response is None:
            self._end(item, f"{handler.api.name} failed: {error_code(error).name}")
        return response

    def _end(self, item: InFlight, reason: str) -> None:
        """End the connection because `item` has no answer."""
        item.parts = []
        self.cut(reason)
