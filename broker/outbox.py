"""The answers of one connection on their way out, and what its requests in flight may hold.

Answers leave in request order; all that one step of the loop completed leave in one write. Bounds:
requests and bytes in flight of the connection (beyond them it is not read), and its unsent bytes,
which count in the broker's budget.
Invariant: the bytes of a request are in flight as long as anything here has them: a produce that is
answered at its timeout, or whose connection is gone, is given back when its appends are settled.
"""

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from tailrace.broker.answer_order import AnswerOrder
from tailrace.broker.config import NetworkConfig
from tailrace.core.runtime.budget import Budget
from tailrace.core.runtime.net import HOLD_USER, FrameChannel

if TYPE_CHECKING:
    from tailrace.broker.in_flight import InFlight
    from tailrace.protocol.ids import Buffer


class Outbox:
    """The turns of one connection. All calls come from the loop."""

    def __init__(self, limits: NetworkConfig, requests: Budget, unsent: Budget) -> None:
        """Share the budgets of `requests` in flight and of bytes `unsent` with all connections."""
        self.turns: AnswerOrder[InFlight] = AnswerOrder()
        self.closed = False
        """No more requests are taken."""
        self._limits = limits
        self._requests = requests
        self._unsent_of_all = unsent
        self._channel: FrameChannel | None = None
        self._bytes = 0
        self._unsent = 0  # counted in the broker's budget of unsent bytes
        self._full = False  # more is in flight than the limits allow: not read
        self._flushing = False  # `flush` is called soon
        self._loop = asyncio.get_running_loop()

    def open(self, channel: FrameChannel) -> None:
        """Send to this channel from now on."""
        self._channel = channel

    def take(self, size: int) -> None:
        """Count the bytes of a request that came."""
        self._bytes += size

    def give_back(self, size: int) -> None:
        """Let go of a request that never came as far as the pipeline."""
        self._bytes -= size
        self._requests.give(size)

    def hold_if_full(self) -> None:
        """Stop reading if too much is in flight."""
        if self._over_limits() and self._channel is not None:
            self._full = True
            self._channel.hold(HOLD_USER)

    def flush_soon(self) -> None:
        """Send what may leave when this step of the loop is over."""
        if not self._flushing:
            self._flushing = True
            self._loop.call_soon(self.flush)

    def flush(self) -> None:
        """Send what may leave now."""
        self._flushing = False
        channel = self._channel
        if channel is None:
            return
        ready = self.turns.take_ready()
        if not ready:
            return
        parts: list[Buffer] = []
        for item in ready:
            if item.parts:
                parts += item.parts
        if parts:
            channel.send(parts)
        self._count_out(ready)
        if self._full:
            self._read_again(channel)
        if channel.write_blocked:
            self._count_unsent(channel)

    def drained(self) -> None:
        """Count the unsent bytes out: the client has taken them."""
        self._unsent_of_all.give(self._unsent)
        self._unsent = 0

    def drop(self) -> None:
        """Forget everything: the connection is gone. What goes on is counted until it ends."""
        self._channel = None
        for item in self.turns.clear():
            item.parts = []
            item.abandon()
            holder = item.holder
            if holder is None:
                self._requests.give(item.size)
            else:
                holder.add_done_callback(partial(self._on_settled, item.size))
        self.drained()

    def _count_out(self, answered: "list[InFlight]") -> None:
        size = 0
        for item in answered:
            if item.appends is None:
                size += item.size
            else:  # it was answered at its timeout, and the log has it still
                item.appends.add_done_callback(partial(self._on_settled, item.size))
        self._bytes -= size
        self._requests.give(size)

    def _on_settled(self, size: int, _: object) -> None:
        """Let go of a request that outlived its answer or its connection."""
        self._bytes -= size
        self._requests.give(size)
        if self._full and self._channel is not None:
            self._read_again(self._channel)

    def _over_limits(self) -> bool:
        limits = self._limits
        return (
            self._bytes >= limits.connection_bytes_max
            or len(self.turns.turns) >= limits.connection_requests_max
        )

    def _read_again(self, channel: FrameChannel) -> None:
        if not self._over_limits() and not self.closed:
            self._full = False
            channel.release(HOLD_USER)

    def _count_unsent(self, channel: FrameChannel) -> None:
        unsent = channel.unsent_bytes
        self._unsent_of_all.take(unsent - self._unsent)
        self._unsent = unsent
