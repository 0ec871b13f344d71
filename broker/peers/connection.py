"""One connection to another broker: one request at a time, in the newest version both sides speak.

Brokers answer the requests of a connection in turn, so a second one in flight would gain little and
could be held up by the first: what may not wait for each other has connections of its own.
How it gets in, by TLS and SASL, an `Entrance` says.
Whatever ends a request without its answer ends the connection: nothing may be left over in it.
"""

import asyncio
from typing import Any, Final, TypeVar

from tailrace.broker.peers.entrance import OPEN, Entrance
from tailrace.broker.peers.errors import PeerLost, PeerUnavailable, PeerUnsupported
from tailrace.broker.peers.routes import Place
from tailrace.core.access.sasl.mechanism import AuthenticationFailed
from tailrace.core.errors import CoreError
from tailrace.core.runtime.budget import Budget
from tailrace.core.runtime.frame_user import FrameLimits
from tailrace.core.runtime.net import FrameChannel
from tailrace.core.runtime.receive_buffer import ReceiveBuffer
from tailrace.protocol.errors import ProtocolError
from tailrace.protocol.kafka.api import Api
from tailrace.protocol.kafka.apis import API_VERSIONS
from tailrace.protocol.kafka.codec import decode_response, encode_request
from tailrace.protocol.kafka.header import RequestHeader, decode_response_header, request_frame
from tailrace.protocol.kafka.messages.api_versions import ApiVersionsRequest

Q = TypeVar("Q")
R = TypeVar("R")

ANSWER_BYTES_MAX: Final = 16 * 1024 * 1024
"""A longer answer ends the connection."""


class PeerConnection:
    """A connection that is made by `open`; what is asked before, or after its end, is lost."""

    def __init__(self, client_id: str, receive: ReceiveBuffer, entrance: Entrance = OPEN) -> None:
        self._client_id = client_id
        self._receive = receive
        self._entrance = entrance
        self._budget = Budget("peer answers", ANSWER_BYTES_MAX)
        self._channel: FrameChannel | None = None
        self._versions: dict[int, tuple[int, int]] = {}
        self._correlation_id = 0
        self._answer: asyncio.Future[memoryview] | None = None
        self._log_in_at_s: float | None = None
        """When to log in again; None: not."""
        self._loop = asyncio.get_running_loop()

    @property
    def is_open(self) -> bool:
        """Whether requests can be sent."""
        return self._channel is not None and not self._channel.is_closing

    async def open(self, at: Place) -> None:
        """Connect, and hear what the broker speaks. Errors: PeerUnavailable. Cancel: it is closed.

        No bound on its time: that is the caller's.
        """
        try:
            await self._connect(at)
            spoken = await self._ask(API_VERSIONS, 0, ApiVersionsRequest())
            self._versions = {
                each.api_key: (each.min_version, each.max_version) for each in spoken.api_keys
            }
            await self._log_in()
        except (OSError, PeerLost) as error:
            self.drop("it does not answer")
            raise PeerUnavailable(f"{at.host}:{at.port} cannot be reached: {error}") from error
        except BaseException:
            self.drop("the connection took too long")
            raise

    async def ask(self, api: Api[Q, R], request: Q, version_min: int) -> R:
        """Send a request, in no version before `version_min`, and return its answer.

        Errors: PeerUnsupported, PeerUnavailable (a log-in was refused), PeerLost. Cancel: the
        connection is closed, what was asked may happen. Not while another request is in flight.
        """
        version = self._version(api, version_min)
        try:
            if self._log_in_at_s is not None and self._loop.time() >= self._log_in_at_s:
                await self._log_in()
            return await self._ask(api, version, request)
        except BaseException:
            self.drop("a request without an answer")
            raise

    def _version(self, api: Api[Q, R], version_min: int) -> int:
        first, last = self._versions.get(api.key, (0, -1))
        version = min(last, api.versions[-1])
        if version < max(first, version_min):
            raise PeerUnsupported(f"{api.name} v{version_min}: the broker has up to v{last}")
        return version

    async def _log_in(self) -> None:
        """Log in, for the first time or again. Errors: PeerUnavailable, PeerLost."""
        try:
            lasts_s = await self._entrance.log_in(self._ask_newest)
        except (AuthenticationFailed, CoreError) as error:
            raise PeerUnavailable(f"it does not let this broker in: {error}") from error
        self._log_in_at_s = None if lasts_s is None else self._loop.time() + lasts_s

    async def _ask_newest(self, api: Api[Q, R], request: Q) -> R:
        return await self._ask(api, self._version(api, 0), request)

    def drop(self, reason: str) -> None:
        """Close at once; whoever waits hears PeerLost. Idempotent."""
        if self._channel is not None:
            self._channel.discard()  # `Peers` tells what failed, once
        self._fail(reason)

    def close(self) -> None:
        """Close without a word; whoever waits hears PeerLost. Idempotent."""
        if self._channel is not None:
            self._channel.close()
        self._fail("this broker ends")

    async def _connect(self, at: Place) -> None:
        context = self._entrance.context
        name = None if context is None else at.host
        make = self._new_channel
        await self._loop.create_connection(
            make, at.host, at.port, ssl=context, server_hostname=name
        )

    async def _ask(self, api: Api[Q, R], version: int, request: Q) -> R:
        assert self._answer is None, "one request at a time"
        if not self.is_open or self._channel is None:
            raise PeerLost("the connection is closed")
        self._correlation_id = self._correlation_id % 0x7FFFFFFF + 1
        header = RequestHeader(api.key, version, self._correlation_id, self._client_id)
        self._answer = self._loop.create_future()
        self._channel.send([request_frame(api, header, encode_request(api, version, request))])
        try:
            frame = await self._answer
        finally:
            self._answer = None
        return self._read(api, version, frame)

    def _read(self, api: Api[Any, R], version: int, frame: memoryview) -> R:
        try:
            correlation_id, at = decode_response_header(api, version, frame)
            response = decode_response(api, version, frame[at:])
        except ProtocolError as error:
            raise PeerLost(f"{api.name} was answered with other bytes: {error}") from error
        if correlation_id != self._correlation_id:
            raise PeerLost(f"{api.name} was answered out of turn")
        return response

    def _new_channel(self) -> FrameChannel:
        limits = FrameLimits(frame_bytes_max=ANSWER_BYTES_MAX)
        return FrameChannel(self, limits, self._budget, self._receive)

    def _fail(self, reason: str) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(PeerLost(reason))

    # -- FrameUser: what the connection tells -----------------------------------------------------

    def on_open(self, channel: FrameChannel) -> None:
        """Take the channel."""
        self._channel = channel

    def on_frame(self, frame: memoryview) -> None:
        """Hand the answer to who waits; nobody else can have asked."""
        self._budget.give(len(frame))
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(frame)

    def on_drained(self) -> None:
        """Nothing waits for the socket here: there is one request."""

    def on_close(self, error: Exception | None) -> None:
        """Tell who waits that no answer comes."""
        self._channel = None
        self._fail(f"the connection ended: {error or 'the broker closed it'}")
