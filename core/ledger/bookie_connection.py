"""One connection to a bookie: requests out, answers back to who asked, in one of the protocols.

Invariant: as of `BookieClient`, for the requests that the connection's wire has words for.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple, TypeAlias

from tailrace.core.errors import CoreError
from tailrace.core.ledger.bookie_client import Reply
from tailrace.core.ledger.bookie_entrance import MakeProtocol
from tailrace.core.ledger.config import BookieClientConfig
from tailrace.core.ledger.metrics import BookieClientMetrics
from tailrace.core.runtime.budget import Budget
from tailrace.core.runtime.frame_user import FrameLimits
from tailrace.core.runtime.net import FrameChannel
from tailrace.core.runtime.receive_buffer import ReceiveBuffer
from tailrace.core.runtime.tasks import Tasks
from tailrace.protocol.bookkeeper.entry import FRAME_BYTES_LIMIT
from tailrace.protocol.bookkeeper.messages import (
    ErrorResponse,
    ReadRequest,
    Request,
    Response,
    StatusCode,
    operation_of,
)
from tailrace.protocol.errors import ProtocolError
from tailrace.protocol.ids import BookieId, Buffer

logger = logging.getLogger(__name__)

Reach: TypeAlias = Callable[[MakeProtocol], Awaitable[None]]
"""Finds a bookie and connects to it. Errors: OSError, CoreError, ProtocolError."""

_NO_WRITE_HOLD: Final = 2**40
"""Our own limit on unsent bytes stops the writer; answers are read however slow the bookie is."""


class Wire(NamedTuple):
    """How requests and answers look. Each request has a number, which its answer repeats."""

    encode: Callable[[int, Request], list[Buffer]]
    """Returns the parts of a request's frame."""
    decode: Callable[[Buffer], tuple[int, Response]]
    """Returns number and answer of a frame without its length. Errors: ProtocolError."""


_Outstanding: TypeAlias = tuple[Request, Reply, float]
"""A request, whom to give its answer, and until when (s of the loop)."""


class BookieConnection:
    """Connects when asked, and again after a loss.

    When the connection is lost, everything outstanding fails with LOCAL_UNAVAILABLE: its fate is
    unknown. A request without an answer in time fails with LOCAL_TIMEOUT and the connection stays.
    Beyond its limits a request fails at once with ETOOMANYREQUESTS.
    """

    def __init__(
        self,
        bookie_id: BookieId,
        reach: Reach,
        wire: Wire,
        config: BookieClientConfig,
        metrics: BookieClientMetrics,
    ) -> None:
        self.bookie_id = bookie_id
        self.losses = 0
        self._metrics = metrics
        self._reach = reach
        self._encode, self._decode = wire
        self._config = config
        self._tasks = Tasks("bookie_client")
        self._budget = Budget("bookie_client_frames", _NO_WRITE_HOLD)
        self._outstanding: dict[int, _Outstanding] = {}
        self._unsent: list[int] = []  # numbers of requests that wait for the connection
        self._last_txn_id = 0
        self._channel: FrameChannel | None = None
        self._connecting = False
        self._trouble = ""
        """Why it cannot be reached, as was told; empty once it could."""
        self._sweep: asyncio.TimerHandle | None = None
        self._closed = False

    def submit(self, request: Request, reply: Reply) -> None:
        """Send a request, connecting first if need be."""
        loop = asyncio.get_running_loop()
        refusal = self._refusal()
        if refusal is not None:
            self._metrics.refusals_total += 1
            loop.call_soon(reply, ErrorResponse(refusal, operation_of(request)))
            return
        self._last_txn_id = txn_id = self._last_txn_id + 1
        timeout_ms = self._config.request_timeout_ms
        if type(request) is ReadRequest:
            timeout_ms += request.timeout_ms or 0
        deadline_s = loop.time() + timeout_ms / 1000
        self._outstanding[txn_id] = (request, reply, deadline_s)
        self._metrics.outstanding += 1
        if self._sweep is None:
            self._sweep = loop.call_later(self._config.request_timeout_ms / 2000, self._expire)
        if self._channel is not None:
            self._channel.send(self._encode(txn_id, request))
        else:
            self._unsent.append(txn_id)
            self._start_connecting()

    async def close(self) -> None:
        """Fail what is outstanding, close the connection, end the tasks.

        Cancel: it is closed, only the waiting ends.
        """
        self._closed = True
        if self._sweep is not None:
            self._sweep.cancel()
        try:
            await self._tasks.close()
        finally:
            if self._channel is not None:
                self._channel.close()
                self._channel = None
            self._fail_all(StatusCode.LOCAL_UNAVAILABLE)

    def disconnect_if_idle(self) -> bool:
        """Close the connection unless an answer is owed; tell whether there is none now.

        The next request connects again.
        """
        if self._outstanding or self._connecting:
            return False
        if self._channel is not None:
            self._channel.close()
        return True

    # -- FrameUser: what the connection tells ---

    def on_open(self, channel: FrameChannel) -> None:
        """Send what waited, in order."""
        self._channel = channel
        self._trouble = ""
        self._metrics.connects_total += 1
        unsent, self._unsent = self._unsent, []
        for txn_id in unsent:
            if txn_id in self._outstanding:  # else it timed out before there was a connection
                channel.send(self._encode(txn_id, self._outstanding[txn_id][0]))

    def on_frame(self, frame: memoryview) -> None:
        """Hand an answer to who asked; one that came after its time-out is dropped."""
        self._budget.give(len(frame))
        txn_id, response = self._decode(frame)
        asked = self._outstanding.pop(txn_id, None)
        if asked is not None:
            self._metrics.outstanding -= 1
            asked[1](response)

    def on_drained(self) -> None:
        """Nothing waits for the socket here."""

    def on_close(self, error: Exception | None) -> None:
        """Fail what is outstanding: whether the bookie did it is unknown."""
        if self._channel is not None:
            self.losses += 1
            self._metrics.losses_total += 1
            logger.warning("bookie_lost bookie=%s error=%s", self.bookie_id, error)
        self._channel = None
        self._fail_all(StatusCode.LOCAL_UNAVAILABLE)

    # -- inside ---

    def _refusal(self) -> StatusCode | None:
        if self._closed:
            return StatusCode.LOCAL_UNAVAILABLE
        config, channel = self._config, self._channel
        if len(self._outstanding) >= config.outstanding_requests_max:
            return StatusCode.ETOOMANYREQUESTS
        if channel is not None and channel.unsent_bytes > config.unsent_bytes_max:
            return StatusCode.ETOOMANYREQUESTS
        return None

    def _start_connecting(self) -> None:
        if not self._connecting:
            self._connecting = True
            self._tasks.start(self._connect(), f"connect {self.bookie_id}")

    async def _connect(self) -> None:
        try:
            async with asyncio.timeout(self._config.connect_timeout_ms / 1000):
                await self._reach(self._new_channel)
        except (OSError, TimeoutError, CoreError, ProtocolError) as error:
            self._metrics.connect_failures_total += 1
            self._on_unreachable(error)
            self._fail_all(StatusCode.LOCAL_UNAVAILABLE)
        finally:
            self._connecting = False
        if self._unsent:  # the connection failed, or is gone again, and they came after that
            self._start_connecting()

    def _on_unreachable(self, error: Exception) -> None:
        """Tell once: a writer that cannot replace the bookie tries again with each entry."""
        level = logging.DEBUG if self._trouble == repr(error) else logging.WARNING
        self._trouble = repr(error)
        logger.log(level, "bookie_unreachable bookie=%s error=%s", self.bookie_id, error)

    def _new_channel(self) -> FrameChannel:
        limits = FrameLimits(frame_bytes_max=FRAME_BYTES_LIMIT, write_high_bytes=_NO_WRITE_HOLD)
        return FrameChannel(self, limits, self._budget, _RECEIVE)

    def _expire(self) -> None:
        loop = asyncio.get_running_loop()
        now_s = loop.time()
        late = [txn for txn, (_, _, until_s) in self._outstanding.items() if until_s <= now_s]
        self._metrics.timeouts_total += len(late)
        self._sweep = None
        if self._outstanding and not self._closed:  # before the replies: one of them may raise
            self._sweep = loop.call_later(self._config.request_timeout_ms / 2000, self._expire)
        self._fail(late, StatusCode.LOCAL_TIMEOUT)

    def _fail_all(self, status: StatusCode) -> None:
        self._unsent.clear()
        self._fail(list(self._outstanding), status)

    def _fail(self, txn_ids: list[int], status: StatusCode) -> None:
        for txn_id in txn_ids:
            asked = self._outstanding.pop(txn_id, None)
            if asked is not None:  # else a reply before it closed the client
                self._metrics.outstanding -= 1
                request, reply, _ = asked
                reply(ErrorResponse(status, operation_of(request)))


_RECEIVE: Final = ReceiveBuffer()
"""One for all bookie connections: a read and its frames are one step of the loop."""
