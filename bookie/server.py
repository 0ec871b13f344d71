"""The bookie's socket: BookKeeper's frames in, answers out in any order.

A connection speaks v3 until its first v2 frame, and v2 ever after; a request is answered in the
protocol that it came in.

Bounds: a frame of `nettyMaxFrameSizeBytes`; requests in flight (bytes of all connections) by a
budget: when it is full no socket is read; requests in work of one connection, by what their answers
may take; a peer that does not drain is not read, and cut when it stalls. Answers of one turn of the
loop leave together.
"""

import asyncio
import logging
from functools import partial
from typing import Final

from tailrace.bookie.config import MIB, BookieConfig
from tailrace.bookie.door import Door
from tailrace.bookie.requests import Bookie
from tailrace.core.runtime.budget import Budget
from tailrace.core.runtime.forever import Forever
from tailrace.core.runtime.frame_user import FrameLimits
from tailrace.core.runtime.net import HOLD_USER, FrameChannel
from tailrace.core.runtime.receive_buffer import ReceiveBuffer
from tailrace.core.runtime.tasks import Tasks
from tailrace.protocol.bookkeeper import v2_answers, v2_requests
from tailrace.protocol.bookkeeper.codec import decode_request, encode_response
from tailrace.protocol.bookkeeper.messages import (
    AddRequest,
    ErrorResponse,
    Request,
    Response,
    StatusCode,
    operation_of,
)
from tailrace.protocol.bookkeeper.v2_requests import Origin, is_v2
from tailrace.protocol.errors import FrameTooLarge
from tailrace.protocol.ids import Buffer

logger = logging.getLogger(__name__)

STALL_CHECK_S: Final = 1.0
IN_FLIGHT_MAX: Final = 64
"""Requests of one connection, adds apart, that may be in work."""
ANSWER_BYTES_MAX: Final = 16 * MIB
"""What all their answers may take, as far as the ones before them tell; one is always allowed."""
ANSWER_BYTES_AT_FIRST: Final = MIB
"""What an answer is expected to take before there was one."""


class BookieConnection:
    """One client's connection."""

    def __init__(
        self, bookie: Bookie, budget: Budget, connections: "dict[BookieConnection, None]"
    ) -> None:
        self._bookie = bookie
        self._budget = budget
        self._connections = connections
        self._loop = asyncio.get_running_loop()
        self._channel: FrameChannel | None = None
        self._answers: list[Buffer] = []
        self._in_flight = 0
        self._answer_bytes = ANSWER_BYTES_AT_FIRST
        self._is_held = False
        self._is_v2 = False

    @property
    def channel(self) -> FrameChannel | None:
        """Return the socket's side, None when it is gone."""
        return self._channel

    def on_open(self, channel: FrameChannel) -> None:
        """Take the channel."""
        self._channel = channel
        self._connections[self] = None

    def on_frame(self, frame: memoryview) -> None:
        """Submit one request. Errors: ProtocolError ends the connection."""
        try:
            origin, request = self._decode(frame)
        except Exception:
            self._budget.give(len(frame))
            raise
        if type(request) is AddRequest:
            self._bookie.submit(request, partial(self._reply, origin, len(frame)))
            return
        self._in_flight += 1
        if self._in_flight >= self._in_flight_max and self._channel is not None:
            self._is_held = True
            self._channel.hold(HOLD_USER)
        self._bookie.submit(request, partial(self._end_flight, origin, len(frame)))

    @property
    def _in_flight_max(self) -> int:
        return min(IN_FLIGHT_MAX, max(1, ANSWER_BYTES_MAX // self._answer_bytes))

    def on_drained(self) -> None:
        """Nothing waits here: answers are written when they come."""

    def on_close(self, error: Exception | None) -> None:
        """Forget the channel; answers that still come are dropped."""
        self._channel = None
        self._answers = []
        self._connections.pop(self, None)

    def _decode(self, frame: memoryview) -> tuple[int | Origin, Request]:
        """Return a request and what its answer goes by: transaction id, or v2's origin."""
        if self._is_v2 or is_v2(frame):
            self._is_v2 = True
            return v2_requests.decode_request(frame)
        return decode_request(frame)

    def _reply(self, origin: int | Origin, size: int, response: Response) -> int:
        """Answer, and return the bytes of the answer."""
        self._budget.give(size)
        if self._channel is None:
            return 0
        if response.status is StatusCode.LOCAL_UNAVAILABLE:  # no word for the wire: it goes away
            self._channel.abort("the bookie ends")
            return 0
        parts = _encode(origin, response)
        if not parts:
            self._channel.abort(f"no words for {response.status.name}")
            return 0
        if not self._answers:
            self._loop.call_soon(self._flush)
        self._answers += parts
        return sum(map(len, parts))

    def _end_flight(self, origin: int | Origin, size: int, response: Response) -> None:
        self._in_flight -= 1
        answer_bytes = self._reply(origin, size, response)
        self._answer_bytes = max(answer_bytes, self._answer_bytes // 2, 1)
        if self._is_held and self._in_flight <= self._in_flight_max // 2:
            self._loop.call_soon(self._read_on)

    def _read_on(self) -> None:
        """Read on, unless requests have come since this was planned: then their end plans anew."""
        if self._in_flight <= self._in_flight_max // 2 and self._channel is not None:
            self._is_held = False
            self._channel.release(HOLD_USER)

    def _flush(self) -> None:
        answers: list[Buffer] = self._answers
        self._answers = []
        if self._channel is not None and answers:
            self._channel.send(answers)


def _encode(origin: int | Origin, response: Response) -> list[Buffer]:
    try:
        return _encode_as_asked(origin, response)
    except FrameTooLarge:
        error = ErrorResponse(StatusCode.EIO, operation_of(response))
        return _encode_as_asked(origin, error)


def _encode_as_asked(origin: int | Origin, response: Response) -> list[Buffer]:
    if isinstance(origin, Origin):
        return v2_answers.encode_response(origin, response)
    return encode_response(origin, response)


class BookieServer:
    """Listens for one Bookie."""

    def __init__(self, bookie: Bookie, config: BookieConfig, door: Door | None = None) -> None:
        """`door`: lets connections in; it is closed with this server. None: all may come in."""
        self._bookie = bookie
        self._door = door
        self._config = config
        self._budget = Budget("bookie_request_bytes", config.pending_bytes_max * MIB)
        self._receive = ReceiveBuffer()
        self._connections: dict[BookieConnection, None] = {}  # they end in the order they came in
        self._server: asyncio.Server | None = None
        self._tasks = Tasks("bookie_server")
        self._checks = Forever("bookie_server.check")
        self.port = config.port

    async def start(self) -> None:
        """Listen. Errors: OSError (the address is taken)."""
        loop = asyncio.get_running_loop()
        make = self._connect if self._door is None else partial(self._door.protocol, self._connect)
        self._server = await loop.create_server(make, self._config.host, self._config.port)
        self.port = self._server.sockets[0].getsockname()[1]
        self._tasks.start(self._checks.run(self._cut_stalled), "check")

    async def close(self) -> None:
        """Stop listening and close the connections once their answers are written."""
        if self._server is not None:
            self._server.close()
        await self._tasks.close()
        if self._door is not None:
            await self._door.close()
        for connection in list(self._connections):
            if connection.channel is not None:
                connection.channel.close()
        if self._server is not None:
            await self._server.wait_closed()

    def _connect(self) -> FrameChannel:
        limits = FrameLimits(frame_bytes_max=self._config.frame_bytes_max - 4)
        user = BookieConnection(self._bookie, self._budget, self._connections)
        return FrameChannel(user, limits, self._budget, self._receive)

    async def _cut_stalled(self) -> None:
        """Cut, after a while, the connections that made no progress."""
        await asyncio.sleep(STALL_CHECK_S)
        now_s = asyncio.get_running_loop().time()
        for connection in list(self._connections):
            channel = connection.channel
            with self._checks.item("a connection"):
                if channel is not None and channel.is_stalled(now_s):
                    channel.abort("no progress")
