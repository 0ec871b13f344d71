"""Length-prefixed frames over a stream transport: the socket side of every server and client here.

A frame is a big-endian 32-bit size and that many bytes. The sizes come from a peer, so:
  - a negative size, or one above the limit, ends the connection with one log line;
  - memory follows the bytes that arrived, not the size that was announced (`unfinished.py`);
  - a frame is received only when the shared `Budget` has room; until then the socket is not read,
    and what was read with the last frame is counted (`receive_buffer.py`);
  - a peer that does not drain what we write is not read either; `is_stalled` says when to cut it.

Copies: the rest of a frame that did not arrive with its head is received straight into the frame's
own bytearray. What arrives whole in the shared receive buffer is copied out once (16 KiB: 0.3 us):
an idle connection has no buffer, and a kept frame (a cached batch) never pins a neighbour's bytes.
"""

import asyncio
import logging
import struct
from collections.abc import Sequence
from typing import cast

from typing_extensions import override

from tailrace.core.runtime.budget import Budget
from tailrace.core.runtime.frame_user import FrameLimits, FrameUser
from tailrace.core.runtime.receive_buffer import ReceiveBuffer
from tailrace.core.runtime.same_host import send_unpaced
from tailrace.core.runtime.turn_writer import TurnWriter
from tailrace.core.runtime.unfinished import UnfinishedFrame
from tailrace.protocol.errors import DecodeError, FrameTooLarge, ProtocolError
from tailrace.protocol.ids import Buffer

logger = logging.getLogger(__name__)

HURRY_S = 3.0
"""What is left of a peer's time while the memory that it holds is short for others."""

HOLD_BUDGET = 1
"""Not read because the shared budget is full."""
HOLD_WRITE = 2
"""Not read because the peer does not drain what was written."""
HOLD_USER = 4
"""Not read because the owner has enough in flight."""
HOLD_THROTTLE = 8
"""Not read because the peer is over a quota."""
HOLD_LOGIN = 16
"""Not read because it is just decided who the peer is."""

_WRITE_HIGH_BYTES_MAX = 2**31 - 1  # what uvloop can keep of it

_SIZE = struct.Struct(">i")


class FrameChannel(asyncio.BufferedProtocol):
    """One connection: bytes in as frames, buffers out, with backpressure both ways.

    It is the fault boundary of its user: what a call of the user raises ends this connection only.
    """

    def __init__(
        self,
        user: "FrameUser[FrameChannel]",
        limits: FrameLimits,
        budget: Budget,
        receive: ReceiveBuffer,
    ) -> None:
        self.peer = "?"
        self.local: tuple[str, int] | None = None
        """Our own address of this connection."""
        self.certificate: bytes | None = None
        """The peer's, which was verified. Shape: DER. None: it has shown none."""
        self.last_active_s = 0.0
        self._user = user
        self._limits = limits
        self._budget = budget
        self._receive = receive
        self._transport: asyncio.Transport | None = None
        self._writer: TurnWriter | None = None
        self._loop = asyncio.get_running_loop()
        self._held = 0
        self._parsing = False
        self._reading = True
        self._head = b""  # a size that is not whole yet: 0 to 3 bytes
        self._body: UnfinishedFrame | None = None  # the frame that is being received
        self._backlog: memoryview | None = None  # read, but not to be parsed before the hold ends
        self._backlog_at = 0
        self._closing = False
        self._undrained = 0  # unsent bytes when they were last seen to shrink
        self._undrained_s = 0.0

    # -- the transport's side ---------------------------------------------------------------------

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start: called by the transport."""
        transport = cast("asyncio.Transport", transport)  # uvloop's own class quacks
        self._transport = transport
        self._writer = TurnWriter(transport, self._loop)
        peer = transport.get_extra_info("peername")
        self.peer = f"{peer[0]}:{peer[1]}" if isinstance(peer, tuple) else str(peer or "local")
        local = transport.get_extra_info("sockname")
        self.local = (local[0], local[1]) if isinstance(local, tuple) else None
        if tls := transport.get_extra_info("ssl_object"):
            self.certificate = tls.getpeercert(binary_form=True)
        send_unpaced(transport)
        self._limit_unsent()
        self.last_active_s = self._loop.time()
        self._user.on_open(self)

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        """End: called by the transport."""
        self._closing = True
        self._budget.forget(self._on_budget_free)
        self._receive.unfinished.forget(self._on_unfinished_free)
        if self._body is not None:
            self._body.give_back()
        self._body = None
        self._take_backlog()
        self._transport = self._writer = None
        self._user.on_close(exc)

    @override
    def eof_received(self) -> bool:
        """Close when the peer does: nobody half-closes in the protocols spoken here."""
        return False

    @override
    def get_buffer(self, sizehint: int) -> memoryview:
        """Return where the next read goes: the frame's own memory, or the shared buffer."""
        body = self._body
        if body is None:
            head = len(self._head)
            view = self._receive.room
            if head:
                view[:head] = self._head
                return view[head:]
            return view
        return memoryview(body.body)[body.have :]

    @override
    def buffer_updated(self, nbytes: int) -> None:
        """Hand out the frames that this read completed."""
        self.last_active_s = self._loop.time()
        body = self._body
        if body is None:
            end = len(self._head) + nbytes
            self._head = b""
            self._parse(self._receive.view, 0, end)
            return
        body.have += nbytes
        if body.have == body.size:
            self._finish_body(body)
        elif body.is_full:
            self._make_room(body)

    @override
    def pause_writing(self) -> None:
        """Stop reading a peer that does not drain: called by the transport above the high mark."""
        self._undrained = self.unsent_bytes
        self._undrained_s = self._loop.time()
        self.hold(HOLD_WRITE)

    @override
    def resume_writing(self) -> None:
        """Go on: called by the transport below the low mark."""
        self._undrained = 0
        self.release(HOLD_WRITE)
        try:
            self._user.on_drained()
        except Exception as error:  # noqa: BLE001 - the fault boundary of a connection
            self._fail(error)

    def feed(self, data: bytes) -> None:
        """Take what was read of this connection before it was given to this protocol."""
        self._parse(memoryview(data), 0, len(data))

    # -- the user's side --------------------------------------------------------------------------

    @property
    def write_blocked(self) -> bool:
        """Whether the peer is slow: build no more answers for it than are under way."""
        return bool(self._held & HOLD_WRITE)

    @property
    def unsent_bytes(self) -> int:
        """Bytes written here that the socket has not taken yet."""
        return self._writer.unsent_bytes if self._writer is not None else 0

    @property
    def is_closing(self) -> bool:
        """Whether nothing can be sent any more."""
        return self._closing

    def send(self, parts: Sequence[Buffer]) -> None:
        """Write buffers in this order, uncopied: nobody may change them any more. Never waits.

        The first of a turn of the loop goes at once, the others together when it ends.
        """
        if not self._closing and self._writer is not None:
            self._writer.write(parts)

    def hold(self, reason: int) -> None:
        """Stop reading for a reason, one of HOLD_*; what was read already waits unparsed."""
        self._held |= reason
        if not self._parsing:
            self._apply_hold()

    def holds(self, reason: int) -> bool:
        """Whether it is not read for a reason, one of HOLD_*."""
        return bool(self._held & reason)

    def release(self, reason: int) -> None:
        """Withdraw a reason; without any left, go on with what waits and then with the socket."""
        self._held &= ~reason
        if self._held or self._parsing or self._closing:
            return
        if self._backlog is not None:
            backlog = self._take_backlog()
            self._parse(backlog, self._backlog_at, len(backlog))
        else:
            self._apply_hold()

    def admit(self, limits: FrameLimits, budget: Budget, receive: ReceiveBuffer) -> None:
        """Go on under the limits of peers that are known; only while the connection is held."""
        assert self._held and self._body is None, "nothing is counted in two budgets"  # noqa: PT018
        backlog = self._take_backlog()
        self._limits, self._budget, self._receive = limits, budget, receive
        if backlog:
            self._backlog = backlog
            receive.hold(len(backlog))
        self._limit_unsent()

    def is_stalled(self, now_s: float, *, hurry: bool = False) -> bool:
        """Whether the peer made no progress for `stall_s` inside a frame or in taking an answer.

        Call it now and then (a second or so): progress is what changed since the last call.
        `hurry`: memory for answers is short, so a peer has no more than `HURRY_S` to take one.
        """
        limit_s = self._limits.stall_s
        if hurry or self._receive.unfinished.full:
            limit_s = min(limit_s, HURRY_S)
        if self.write_blocked or self._closing:
            unsent = self.unsent_bytes
            if unsent < self._undrained or self._undrained == 0:
                self._undrained, self._undrained_s = unsent, now_s
            return unsent > 0 and now_s - self._undrained_s > limit_s
        if self._body is None:
            return False
        if self._held:
            self._body.hold(now_s)
        return self._body.is_stalled(now_s, limit_s)

    def close(self) -> None:
        """Send what was written, then close. Idempotent. A peer that does not drain stalls."""
        if not self._closing and self._writer is not None:
            self._closing = True
            self._undrained_s = self._loop.time()
            self._writer.close()

    def abort(self, reason: str) -> None:
        """Close at once, dropping what is unsent, with one log line."""
        if self._transport is not None:
            logger.warning("connection closed peer=%s reason=%s", self.peer, reason)
            self.discard()

    def discard(self) -> None:
        """Close at once, dropping what is unsent; the caller says why. Idempotent."""
        self._closing = True
        if self._writer is not None:
            self._writer.abort()

    # -- frames -----------------------------------------------------------------------------------

    def _parse(self, view: memoryview, at: int, end: int) -> None:
        """Deliver the whole frames of view[at:end]; keep the rest in the form that fits it."""
        self._parsing = True
        try:
            at = self._deliver_whole(view, at, end)
        finally:
            self._parsing = False
        if self._closing:
            return
        if self._held and at < end:
            self._keep_backlog(view, at, end)
        elif end - at >= _SIZE.size:
            self._begin_body(view, at, end)
        else:
            self._head = bytes(view[at:end])
        self._apply_hold()

    def _deliver_whole(self, view: memoryview, at: int, end: int) -> int:
        budget = self._budget
        size_max = self._limits.frame_bytes_max
        on_frame = self._user.on_frame
        unpack = _SIZE.unpack_from
        try:
            while end - at >= 4 and not self._closing and not self._held:
                (size,) = unpack(view, at)
                if not 0 <= size <= size_max:
                    self._refuse(FrameTooLarge(f"frame of {size} bytes, limit {size_max}"))
                    break
                if budget.used >= budget.limit:
                    budget.when_free(self._on_budget_free)
                    self._held |= HOLD_BUDGET
                    break
                start = at + 4
                if start + size > end:
                    break
                budget.take(size)
                at = start + size
                on_frame(memoryview(bytearray(view[start:at])))
        except Exception as error:  # noqa: BLE001 - the fault boundary of a connection
            self._fail(error)
        return at

    def _fail(self, error: Exception) -> None:
        """End the connection for what a call of the user raised: the peer's fault, or a bug."""
        if isinstance(error, ProtocolError):
            self._refuse(error)
        else:
            logger.error("connection failed peer=%s", self.peer, exc_info=error)
            self.discard()

    def _begin_body(self, view: memoryview, at: int, end: int) -> None:
        """Give a frame that did not arrive whole its own memory."""
        size: int = _SIZE.unpack_from(view, at)[0]
        came = view[at + _SIZE.size : end]
        receive, now_s = self._receive, self._loop.time()
        body = UnfinishedFrame(size, came, receive.unfinished, now_s, receive.first_bytes)
        self._body = body
        if body.is_full:
            self._make_room(body)

    def _make_room(self, body: UnfinishedFrame) -> None:
        if not body.make_room():
            self._receive.unfinished.when_free(self._on_unfinished_free)
            self.hold(HOLD_BUDGET)

    def _finish_body(self, body: UnfinishedFrame) -> None:
        """Hand out a frame that is whole now, or as soon as the budget has room."""
        if self._budget.full:
            self._budget.when_free(self._on_budget_free)
            self.hold(HOLD_BUDGET)
            return
        self._body = None
        body.give_back()
        self._budget.take(body.size)
        self._parsing = True
        try:
            self._user.on_frame(memoryview(body.body))
        except Exception as error:  # noqa: BLE001 - the fault boundary of a connection
            self._fail(error)
        finally:
            self._parsing = False
        self._apply_hold()

    def _keep_backlog(self, view: memoryview, at: int, end: int) -> None:
        if view is self._receive.view:
            self._backlog, self._backlog_at = memoryview(bytearray(view[at:end])), 0
        else:
            self._backlog, self._backlog_at = view, at
        self._receive.hold(len(self._backlog))

    def _take_backlog(self) -> memoryview:
        backlog, self._backlog = self._backlog, None
        if backlog is None:
            return memoryview(b"")
        self._receive.let_go(len(backlog))
        return backlog

    def _limit_unsent(self) -> None:
        high = min(self._limits.write_high_bytes, _WRITE_HIGH_BYTES_MAX)
        if self._transport is not None:
            self._transport.set_write_buffer_limits(high=high, low=high // 4)

    def _apply_hold(self) -> None:
        if self._closing or self._transport is None:
            return
        if self._held and self._reading:
            self._reading = False
            self._transport.pause_reading()
        elif not self._held and not self._reading:
            self._reading = True
            self.last_active_s = self._loop.time()
            self._transport.resume_reading()

    def _on_budget_free(self) -> None:
        if self._body is not None and not self._closing:
            self._finish_body(self._body)
        self.release(HOLD_BUDGET)

    def _on_unfinished_free(self) -> None:
        assert self._body is not None, "only an unfinished frame waits for room"
        self.release(HOLD_BUDGET)
        self._make_room(self._body)

    def _refuse(self, error: ProtocolError) -> None:
        reason = f"{'bad bytes' if isinstance(error, DecodeError) else 'refused'}: {error}"
        logger.warning("connection closed peer=%s reason=%s", self.peer, reason)
        self.close()
