"""Two ends of a connection in memory, as asyncio's transports behave over sockets.

Verified by `transport_contract.py`, which runs the same stories over real sockets. What the kernel
would hold (`KERNEL_BYTES` of each direction) is "sent"; the rest waits in the transport, and counts
for `pause_writing`. Each end has its process' context: what it tells its protocol happens there.
"""

import asyncio
import contextvars
from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from tailrace.protocol.ids import Buffer

if TYPE_CHECKING:
    from tailrace.simulation.network import SimListener, SimNetwork

KERNEL_BYTES = 192 * 1024
"""What both kernels together hold of one direction."""
PACKET_BYTES = 32 * 1024
"""Most bytes that arrive at once."""

TICK_S = 1e-9
_NOBODY = contextvars.Context()
"""Of what the kernels do: it happens whatever became of the processes."""
_FIN = object()
_RESET = object()


class SimTransport(asyncio.Transport):
    """One end. `peer` is the other one."""

    def __init__(
        self, network: "SimNetwork", local: tuple[str, int], remote: tuple[str, int]
    ) -> None:
        super().__init__({"sockname": local, "peername": remote})
        self.host = local[0]
        self.peer: SimTransport
        self.number = network.register(self)
        self._network = network
        self._loop = network.loop
        self._context = contextvars.copy_context()
        self._protocol: Any = None
        self._unsent: deque[memoryview] = deque()  # the transport's own buffer
        self._unsent_bytes = 0
        self._kernel: deque[bytes] = deque()  # accepted, not on the way yet
        self._room = KERNEL_BYTES
        self._last_arrival_s = 0.0
        self._way_s = network.spread_s * network.rng.random()
        self._arrived: deque[Any] = deque()  # bytes, _FIN or _RESET
        self._high, self._low = 64 * 1024, 16 * 1024
        self._writing_paused = False
        self._reading = True
        self._closing = False
        self._lost = False  # connection_lost was called or is planned
        self._gone = False  # nothing passes any more, and nobody was told
        self._is_unknown = False  # the other machine was restarted
        self._turn_planned = False

    # asyncio's contract

    def begin(self, protocol: Any) -> None:
        """Give it to its protocol; bytes that came before wait until now."""
        self._protocol = protocol
        protocol.connection_made(self)
        self._plan_turn()

    @override
    def write(self, data: Buffer) -> None:
        if self._closing or self._lost or not len(data):
            return
        self._unsent.append(memoryview(bytes(data)))
        self._unsent_bytes += len(data)
        self._give_to_kernel()
        if self._unsent_bytes > self._high and not self._writing_paused:
            self._writing_paused = True
            self._protocol.pause_writing()

    @override
    def writelines(self, list_of_data: Iterable[Buffer]) -> None:
        self.write(b"".join(list_of_data))

    @override
    def close(self) -> None:
        if self._closing or self._lost:
            return
        self._closing = True
        self._reading = False
        if not self._unsent:
            self._lose(None)

    @override
    def abort(self) -> None:
        self._force_close(None)

    @override
    def is_closing(self) -> bool:
        return self._closing or self._lost

    @override
    def pause_reading(self) -> None:
        self._reading = False

    @override
    def resume_reading(self) -> None:
        if not self.is_closing():
            self._reading = True
            self._plan_turn()

    @override
    def is_reading(self) -> bool:
        return self._reading and not self.is_closing()

    @override
    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        if high is None:
            high = 64 * 1024 if low is None else 4 * low
        self._high, self._low = high, high // 4 if low is None else low

    @override
    def get_write_buffer_limits(self) -> tuple[int, int]:
        return self._low, self._high

    @override
    def get_write_buffer_size(self) -> int:
        return self._unsent_bytes

    @override
    def can_write_eof(self) -> bool:
        return False

    @override
    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol

    @override
    def get_protocol(self) -> asyncio.BaseProtocol:
        return self._protocol  # type: ignore[no-any-return]

    # The way out

    def _give_to_kernel(self) -> None:
        """Move what fits from the transport's buffer to the kernel's."""
        while self._unsent and self._room:
            data = self._unsent.popleft()
            part, rest = data[: self._room], data[self._room :]
            if len(rest):
                self._unsent.appendleft(rest)
            self._room -= len(part)
            self._unsent_bytes -= len(part)
            self._kernel.append(bytes(part))
        self.pump()

    def pump(self) -> None:
        """Send what the kernel holds, if the network lets it pass."""
        if self._gone:
            self._answered_by_stranger()
            return
        if not self._network.passes(self.host, self.peer.host):
            self._network.stuck[self.number] = self
            return
        kernel, rng = self._kernel, self._network.rng
        while kernel:
            data = kernel.popleft()
            if type(data) is bytes:
                while kernel and type(kernel[0]) is bytes and len(data) < PACKET_BYTES:
                    data += kernel.popleft()
                if len(data) > PACKET_BYTES:
                    kernel.appendleft(data[PACKET_BYTES:])
                    data = data[:PACKET_BYTES]
                if len(data) > 1 and rng.random() < 0.05:  # a reader may see any cut
                    at = rng.randrange(1, len(data))
                    kernel.appendleft(data[at:])
                    data = data[:at]
            self._send(data)

    def _send(self, item: Any) -> None:
        now_s = self._loop.time()
        earliest_s = self._last_arrival_s + TICK_S  # timers of one moment run in any order
        usual_s = now_s + self._way_s + self._network.delay_s(self.host, self.peer.host)
        self._last_arrival_s = max(earliest_s, usual_s)
        self._loop.call_at(self._last_arrival_s, self.peer._arrive, item, context=_NOBODY)

    def _taken(self, size: int) -> None:
        """Go on: the peer has read so much."""
        self._room += size
        if self._lost:
            return
        self._give_to_kernel()
        if self._writing_paused and self._unsent_bytes <= self._low:
            self._writing_paused = False
            self._protocol.resume_writing()
        if self._closing and not self._unsent:
            self._lose(None)

    # The way in. Arrival is the kernel's business: it happens to paused and dead processes too.

    def _arrive(self, item: Any) -> None:
        if self._gone:
            return
        if self._lost or (self._closing and item is not _RESET):
            if type(item) is bytes:  # a closed socket answers bytes with a reset
                self._kernel_says(_RESET)
            return
        self._arrived.append(item)
        self._plan_turn()

    def _plan_turn(self) -> None:
        if not self._arrived or self._turn_planned or self._protocol is None:
            return
        if self._reading or self._arrived[0] is _RESET:
            self._turn_planned = True
            self._loop.call_soon(self._turn, context=self._context)

    def _turn(self) -> None:
        """Hand out one read's worth."""
        self._turn_planned = False
        if self._lost or not self._arrived:
            return
        item = self._arrived[0]
        if item is _RESET:
            self._force_close(ConnectionResetError(104, "Connection reset by peer"))
            return
        if not self._reading:
            return
        if item is _FIN:
            self._arrived.popleft()
            if not self._protocol.eof_received():
                self.close()
        else:
            self._hand_out(item)
        self._plan_turn()

    def _hand_out(self, data: bytes) -> None:
        try:
            size = self._give(data)
        except Exception as error:  # noqa: BLE001 - as asyncio's transports do
            self._loop.call_exception_handler(
                {"message": "Fatal error: a protocol's call failed", "exception": error}
            )
            self._force_close(error)
            return
        if self._arrived and self._arrived[0] is data:
            self._arrived.popleft()
            if size < len(data):
                self._arrived.appendleft(data[size:])
        self._loop.call_soon(self.peer._taken, size, context=self.peer._context)

    def _give(self, data: bytes) -> int:
        protocol = self._protocol
        if not isinstance(protocol, asyncio.BufferedProtocol):
            protocol.data_received(data)
            return len(data)
        buffer = memoryview(protocol.get_buffer(-1)).cast("B")
        size = min(len(buffer), len(data))
        buffer[:size] = data[:size]
        protocol.buffer_updated(size)
        return size

    # The end

    def _kernel_says(self, item: Any) -> None:
        self._kernel.append(item)
        self.pump()

    def _force_close(self, error: Exception | None) -> None:
        if self._lost:
            return
        self._unsent.clear()
        self._unsent_bytes = 0
        self._closing = True
        self._reading = False
        self._lose(error)

    def _lose(self, error: Exception | None) -> None:
        self._lost = True
        self._network.transports.pop(self.number, None)
        if not isinstance(error, ConnectionError):
            unread = any(type(item) is bytes for item in self._arrived)
            self._kernel_says(_RESET if unread else _FIN)
        self._arrived.clear()
        self._loop.call_soon(self._tell_lost, error, context=self._context)

    def _tell_lost(self, error: Exception | None) -> None:
        if self._protocol is not None:
            self._protocol.connection_lost(error)

    # Faults

    def reset(self) -> None:
        """Break the connection; this end hears of it now, the other one soon."""
        if not self._lost:
            self._kernel.clear()
            self._kernel_says(_RESET)
            self._arrived.appendleft(_RESET)
            self._plan_turn()

    def end_by_kernel(self) -> None:
        """Send what the kernel has and close: the process is dead."""
        if not self._lost:
            self._lost = True
            self._network.transports.pop(self.number, None)
            self._kernel_says(_RESET if self._arrived else _FIN)

    def vanish(self) -> None:
        """End without a word to the other end, which learns it late, if at all."""
        self._gone = self._lost = True
        self._network.transports.pop(self.number, None)
        if self.peer.go_half_open():
            self._network.orphans.setdefault(self.host, []).append(self.peer)

    def go_half_open(self) -> bool:
        """Nothing passes any more; this end hears of it much later (keep-alive, retransmission)."""
        if self._gone or self._lost:
            return False
        self._gone = True
        delay_s = self._network.rng.choice((0.5, 5.0, 30.0, 120.0))
        self._loop.call_later(delay_s, self._give_up, context=self._context)
        return True

    def host_restarted(self) -> None:
        """Hear that the other end's machine runs again, and does not know this connection."""
        self._is_unknown = True
        self._answered_by_stranger()

    def _answered_by_stranger(self) -> None:
        """Have what is sent to a machine that knows nothing of it reset."""
        if self._is_unknown and (self._kernel or self._room < KERNEL_BYTES):
            delay_s = self._network.delay_s(self.host, self.peer.host) + self._network.rng.random()
            self._loop.call_later(delay_s, self._give_up, context=self._context)

    def _give_up(self) -> None:
        if not self._lost:
            self._force_close(ConnectionResetError(110, "Connection timed out"))


def connect_pair(
    network: "SimNetwork",
    client: tuple[str, int],
    server: tuple[str, int],
    listener: "SimListener",
) -> SimTransport:
    """Return the client's end; the server's protocol is told at its next turn."""
    server_end = SimTransport(network, server, client)
    client_end = SimTransport(network, client, server)
    server_end.peer, client_end.peer = client_end, server_end
    server_end._context = listener.context.copy()
    accept: Callable[[], None] = lambda: server_end.begin(listener.factory())  # noqa: E731
    network.loop.call_soon(accept, context=server_end._context)
    return client_end
