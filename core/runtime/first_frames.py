"""The frames with which a connection begins, before the protocol that it is made for takes it.

    bytes --> few small frames, asked for one by one --> `hand_over` --> the protocol, and the rest
                        |
                        +--> `start_tls`: the same again, inside of TLS

A peer is a stranger so far: a frame has a limit, nothing is read beyond it, and no memory is taken
before bytes came. Bytes that came in clear never pass for bytes that came inside of TLS.
"""

import asyncio
import ssl
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, Protocol, cast

from typing_extensions import override

from tailrace.protocol.errors import FrameTooLarge
from tailrace.protocol.ids import Buffer

FRAME_BYTES_MAX: Final = 16 * 1024
"""The largest frame of a stranger; little is read beyond it."""
HANDSHAKE_S: Final = 10.0
"""How long a handshake may take; BookKeeper: startTLSTimeoutSecs."""
SHUTDOWN_S: Final = 5.0
"""How long a connection that is closed waits for the peer to close its side of TLS."""


class Successor(Protocol):
    """The protocol that a connection is made for."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start."""

    def feed(self, data: bytes) -> None:
        """Take what was read before; called once, after the start, if there is something."""


class HandshakeFailed(ConnectionError):
    """A connection could not be made secure; the message says why."""


class TlsSide(NamedTuple):
    """What one side brings to a handshake."""

    context: ssl.SSLContext
    server_side: bool
    server_hostname: str | None = None
    """The name that the certificate of the server must have, as far as the context checks it."""


class FirstFrames(asyncio.BufferedProtocol):
    """One connection at its beginning. One call of `receive` at a time.

    Invariant: what was read and not received goes to the next protocol, or nowhere.
    """

    def __init__(self, on_open: "Callable[[FirstFrames], None] | None" = None) -> None:
        self.peer = "?"
        self.certificate: bytes | None = None
        """The peer's, which was verified. Shape: DER. None: it has shown none."""
        self.is_inside_tls = False
        self._on_open = on_open
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._below: asyncio.Transport | None = None
        """The transport of a handshake that is under way."""
        self._room: memoryview | None = None
        self._data = bytearray()
        self._received = 0
        """Bytes of the last frame, with its size, that `receive` returned."""
        self._lost: ConnectionError | None = None
        self._waiter: asyncio.Future[None] | None = None

    # -- the transport's side ---

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start: called by the transport."""
        self._transport = cast("asyncio.Transport", transport)
        peer = transport.get_extra_info("peername")
        self.peer = f"{peer[0]}:{peer[1]}" if isinstance(peer, tuple) else str(peer or "local")
        if tls := transport.get_extra_info("ssl_object"):
            self.is_inside_tls = True
            self.certificate = tls.getpeercert(binary_form=True)
        if self._on_open is not None:
            self._on_open(self)

    @override
    def get_buffer(self, sizehint: int) -> memoryview:
        """Return where the next read goes."""
        if self._room is None:
            self._room = memoryview(bytearray(FRAME_BYTES_MAX))
        return self._room

    @override
    def buffer_updated(self, nbytes: int) -> None:
        """Keep what was read; read no more while that is enough for a frame."""
        assert self._room is not None, "bytes were read into it"
        self._data += self._room[:nbytes]
        if self._transport is None:
            assert self._below is not None, "bytes come over a transport"
            self._below.pause_reading()  # the handshake is over, and its caller does not run yet
        elif len(self._data) > FRAME_BYTES_MAX:
            self._transport.pause_reading()
        self._wake()

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        """End: called by the transport."""
        self._lost = ConnectionResetError(f"the connection ended: {exc or 'closed by the peer'}")
        self._wake()

    # -- the user's side ---

    async def receive(self) -> memoryview:
        """Return the next frame, without its size. It is valid until the next call.

        Errors: ConnectionError (it ended), FrameTooLarge: only `hand_over` can follow.
        """
        self._drop_received()
        while len(self._data) < 4 or len(self._data) < 4 + self._size():
            if self._lost is not None:
                raise self._lost
            self._waiter = self._loop.create_future()
            await self._waiter
        self._received = 4 + self._size()
        return memoryview(bytes(self._data[4 : self._received]))

    @property
    def has_more(self) -> bool:
        """Whether bytes came behind the last frame that was received."""
        return len(self._data) > self._received

    def take_back(self) -> None:
        """Let the last frame go to the next protocol too."""
        self._received = 0

    def send(self, parts: Sequence[Buffer]) -> None:
        """Write buffers. Never waits."""
        assert self._transport is not None, "a connection that is open"
        self._transport.writelines(parts)

    def close(self) -> None:
        """Send what was written, then close. Idempotent."""
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Close at once. Idempotent."""
        if self._transport is not None:
            self._transport.abort()

    def hand_over(self, protocol: Successor) -> None:
        """Give the connection, and what was read, to its protocol. Errors: ConnectionError."""
        transport = self._transport
        if self._lost is not None or transport is None or transport.is_closing():
            raise self._lost or ConnectionResetError("the connection ended")
        self._drop_received()
        transport.set_protocol(cast("asyncio.BufferedProtocol", protocol))
        transport.resume_reading()
        protocol.connection_made(transport)
        if self._data:
            protocol.feed(bytes(self._data))

    async def start_tls(self, side: TlsSide) -> "FirstFrames":
        """Go on in TLS behind what was written; return the connection inside. This one is done.

        Errors: HandshakeFailed, also where bytes came in clear behind the last frame, which would
        pass for bytes that came inside. Cancel: closes the connection.
        """
        self._drop_received()
        transport = self._transport
        if self._lost is not None or transport is None:
            raise HandshakeFailed("the connection ended before the handshake")
        if self._data:
            raise HandshakeFailed(f"{len(self._data)} bytes came in clear before the handshake")
        inside = FirstFrames()
        inside._below = transport
        try:
            upgraded = await self._loop.start_tls(
                transport, inside, side.context,
                server_side=side.server_side,
                server_hostname=side.server_hostname,
                ssl_handshake_timeout=HANDSHAKE_S,
                ssl_shutdown_timeout=SHUTDOWN_S,
            )  # fmt: skip
        except OSError as error:  # ssl.SSLError and what ends a connection are of this kind
            raise HandshakeFailed(f"TLS handshake: {error}") from error
        if upgraded is None or inside._lost is not None:
            raise HandshakeFailed("TLS handshake: the connection ended")
        inside.connection_made(upgraded)
        transport.resume_reading()
        return inside

    # -- inside ---

    def _size(self) -> int:
        size = int.from_bytes(self._data[:4], "big")
        if size > FRAME_BYTES_MAX - 4:
            raise FrameTooLarge(f"a frame of {size} bytes, limit {FRAME_BYTES_MAX - 4} at first")
        return size

    def _drop_received(self) -> None:
        del self._data[: self._received]
        self._received = 0
        if self._transport is not None and len(self._data) <= FRAME_BYTES_MAX:
            self._transport.resume_reading()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
