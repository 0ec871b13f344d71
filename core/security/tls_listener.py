"""A listening socket whose clients speak TLS.

    accepted -> counted -> handshake, in time -> the server's own protocol, over TLS

asyncio's `create_server(ssl=...)` shows a connection only once its handshake is over. Here it has
its place among all connections from the moment at which it is accepted, and each handshake takes
the certificate of that moment.
"""

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Final, NamedTuple, cast

from typing_extensions import override

logger = logging.getLogger(__name__)

SHUTDOWN_S: Final = 5.0
"""How long a connection that is closed waits for the peer to close its side of TLS."""
ACCEPTED_AT_ONCE: Final = 64
"""In one turn of the loop."""
FULL_S: Final = 1.0
"""How long nothing is accepted after the system had no descriptor left."""


class TlsDoor(NamedTuple):
    """How a listener lets connections in."""

    context: Callable[[], ssl.SSLContext]
    within_s: float
    """How long a handshake may take."""
    enter: Callable[[str], bool]
    """Count a host's connection in; False: there are too many."""
    leave: Callable[[str], None]
    """Count it out: it ended, or the protocol behind the handshake counts it."""
    spawn: Callable[[Coroutine[Any, Any, None]], object]
    failed: Callable[[], None]
    """Count a handshake that failed."""
    make: Callable[[], asyncio.BaseProtocol]
    """The protocol behind the handshake."""


class TlsListener:
    """Sockets for the addresses of one host and port. All calls come from the loop."""

    def __init__(self, door: TlsDoor, backlog: int) -> None:
        self._door = door
        self._backlog = backlog
        self._loop = asyncio.get_running_loop()
        self._sockets: list[socket.socket] = []
        self._accepting: set[socket.socket] = set()
        self.accepted_s = 0.0
        """When the connection came that the door makes a protocol for. Unit: the loop's time."""

    @property
    def port(self) -> int:
        """The real port when 0 was asked for."""
        port: int = self._sockets[0].getsockname()[1]
        return port

    async def bind(self, host: str, port: int) -> None:
        """Take the addresses; an empty host is all of them. Errors: OSError; none is taken then."""
        found = await self._loop.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        try:
            for family, kind, protocol, _, address in dict.fromkeys(found):
                taken = socket.socket(family, kind, protocol)
                self._sockets.append(taken)
                taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if family == socket.AF_INET6:
                    taken.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                taken.bind(address)
        except OSError:
            self.close()
            raise

    async def serve(self) -> None:
        """Listen. Errors: OSError: another process took an address as well, and listens."""
        for each in self._sockets:
            each.settimeout(0)
            each.listen(self._backlog)
            self._go_on(each)

    def close(self) -> None:
        """Listen no more. Connections and handshakes are their owners'. Idempotent."""
        for each in self._sockets:
            if each in self._accepting:
                self._loop.remove_reader(each)
            each.close()
        self._accepting.clear()
        self._sockets.clear()

    def _go_on(self, listening: socket.socket) -> None:
        if listening in self._sockets:
            self._accepting.add(listening)
            self._loop.add_reader(listening, self._accept, listening)

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(ACCEPTED_AT_ONCE):
            try:
                accepted, address = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                logger.warning("accepting_paused error=%s pause_s=%s", error.strerror, FULL_S)
                self._accepting.discard(listening)
                self._loop.remove_reader(listening)
                self._loop.call_later(FULL_S, self._go_on, listening)
                return
            accepted.settimeout(0)
            if self._door.enter(address[0]):
                self._door.spawn(self._shake_hands(accepted, address[0]))
            else:
                logger.warning("connection closed peer=%s reason=too many connections", address[0])
                accepted.close()

    async def _shake_hands(self, accepted: socket.socket, host: str) -> None:
        door = self._door
        leave = _Once(partial(door.leave, host))
        accepted_s = self._loop.time()

        def make() -> asyncio.BaseProtocol:
            self.accepted_s = accepted_s
            return door.make()

        try:
            await self._loop.connect_accepted_socket(
                lambda: _Handshake(leave, make),
                accepted,
                ssl=door.context(),
                ssl_handshake_timeout=door.within_s,
                ssl_shutdown_timeout=SHUTDOWN_S,
            )
        except OSError as error:  # ssl.SSLError and what ends a connection are of this kind
            door.failed()
            logger.warning("connection closed peer=%s reason=TLS handshake: %s", host, error)
        finally:
            leave()


class _Once:
    """A call that is made once."""

    def __init__(self, call: Callable[[], None]) -> None:
        self._call: Callable[[], None] | None = call

    def __call__(self) -> None:
        call, self._call = self._call, None
        if call is not None:
            call()


class _Handshake(asyncio.BufferedProtocol):
    """Has the connection until its handshake is over; gets none of its bytes."""

    def __init__(self, leave: Callable[[], None], make: Callable[[], asyncio.BaseProtocol]) -> None:
        self._leave = leave
        self._make = make

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Give the connection away; its new protocol counts it from now on."""
        self._leave()
        protocol = self._make()
        cast("asyncio.Transport", transport).set_protocol(protocol)
        protocol.connection_made(transport)
