"""Health and metrics over HTTP, for people and for what watches a process.

Small on purpose: a table of routes, each a function that returns text or JSON. aiohttp does the
protocol; it loads only when a server is started, because `tailrace start` without one must be
ready well under a second.

    accepted -> counted -> (TLS) -> head, in time -> guard: may it? -> body -> handler -> answer
"""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeAlias, cast

from typing_extensions import override

from tailrace.core.runtime.plain_listener import PlainListener

if TYPE_CHECKING:
    import socket
    import ssl

    from aiohttp import web

logger = logging.getLogger(__name__)

BODY_BYTES_MAX: Final = 64 * 1024
"""A longer request body is refused with 413."""
CONNECTIONS_MAX: Final = 1_000
"""One more is closed at once."""
HEAD_S: Final = 10.0
"""A connection whose first request is not there by then is closed, at twice of it at the latest."""
_BACKLOG: Final = 32
_CLOSE_S: Final = 2.0

PROMETHEUS_TEXT: Final = "text/plain; version=0.0.4; charset=utf-8"


@dataclass(frozen=True, slots=True)
class HttpReply:
    """An answer: text as it is, anything else as JSON."""

    body: Any
    status: int = 200
    content_type: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)


Handler: TypeAlias = Callable[[bytes], Awaitable[HttpReply] | HttpReply]
"""Answers one request; the argument is its body. Errors: answered as 500, logged once."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A route whose handler wants to know what was asked: names in the path, then the query."""

    handler: Callable[[Mapping[str, str]], Awaitable[HttpReply] | HttpReply]


class HttpHead(NamedTuple):
    """A request before its body is read."""

    route: tuple[str, str]
    """Method and path, as in the table of routes."""
    names: Mapping[str, str]
    """Those in the path."""
    host: str
    """The client's address."""
    authorization: str | None
    """Of several such headers the first."""
    certificate: bytes | None
    """What the client showed in the TLS handshake. Shape: DER."""


Guard: TypeAlias = Callable[[HttpHead], Awaitable[HttpReply | None]]
"""Returns the answer to a request that is not let in, None for one that is."""


class Listening(Protocol):
    """A listening socket, as PlainListener and TlsListener are."""

    @property
    def port(self) -> int:
        """The real port when 0 was asked for."""

    async def bind(self, host: str, port: int) -> None:
        """Take the addresses. Errors: OSError; none is taken then."""

    async def serve(self) -> None:
        """Listen. Errors: OSError."""

    def close(self) -> None:
        """Listen no more. Idempotent."""


Make: TypeAlias = Callable[[], asyncio.BaseProtocol]
"""Makes the protocol of a connection."""


class HttpServer:
    """One HTTP port with fixed routes: (method, path) -> handler."""

    def __init__(
        self,
        host: str,
        port: int,
        routes: Mapping[tuple[str, str], Handler | Asked],
        *,
        guard: Guard | None = None,
        listening: Callable[[Make, int], Listening] = PlainListener,
    ) -> None:
        """`port`: 0 picks a free one; see `port` after `start`.

        `guard` None: every request is let in. `listening` makes the socket, from what makes
        connections and the number that may wait to be accepted.
        """
        self.host = host
        self.port = port
        self._routes = dict(routes)
        self._guard = guard
        self._new_listening = listening
        self._listening: Listening | None = None
        self._runner: web.AppRunner | None = None
        self._silent: set[asyncio.BaseProtocol] = set()
        """Connections whose first request is awaited, and some that have ended since."""
        self._silent_before: set[asyncio.BaseProtocol] = set()
        """Those of them that were there at the last look."""
        self._look: asyncio.TimerHandle | None = None

    async def start(self, listening: "socket.socket | None" = None) -> None:
        """Listen, or serve a socket that listens. Errors: OSError when the address is taken."""
        from aiohttp import web

        app = web.Application(client_max_size=BODY_BYTES_MAX)
        for route, handler in self._routes.items():
            app.router.add_route(*route, self._adapted(route, handler))
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=_CLOSE_S)
        await self._runner.setup()
        self._look = asyncio.get_running_loop().call_later(HEAD_S, self._end_silent)
        try:
            if listening is not None:
                await web.SockSite(self._runner, listening, backlog=_BACKLOG).start()
                self.port = self._runner.addresses[0][1]
                return
            self._listening = self._new_listening(self._make, _BACKLOG)
            await self._listening.bind(self.host, self.port)
            self.port = self._listening.port
            await self._listening.serve()
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Stop listening and end what is open, within two seconds. Idempotent."""
        if self._look is not None:
            self._look.cancel()
        listening, self._listening = self._listening, None
        if listening is not None:
            listening.close()
        runner, self._runner = self._runner, None
        if runner is not None:
            await runner.cleanup()

    def _make(self) -> asyncio.BaseProtocol:
        """Return the protocol of a connection."""
        server = None if self._runner is None else self._runner.server
        if server is None or len(server.connections) >= CONNECTIONS_MAX:
            return _Closed()
        if len(self._silent) >= 2 * CONNECTIONS_MAX:
            self._silent.intersection_update(server.connections)
        made = server()
        self._silent.add(made)
        return made

    def _end_silent(self) -> None:
        server = None if self._runner is None else self._runner.server
        for each in () if server is None else server.connections:
            if each in self._silent_before:
                each.force_close()
        self._silent, self._silent_before = set(), self._silent
        self._look = asyncio.get_running_loop().call_later(HEAD_S, self._end_silent)

    def _adapted(
        self, route: tuple[str, str], handler: Handler | Asked
    ) -> "Callable[[web.Request], Awaitable[web.Response]]":
        async def answer(request: "web.Request") -> "web.Response":
            self._silent.discard(request.protocol)
            self._silent_before.discard(request.protocol)
            refused = await self._guard(_head(route, request)) if self._guard else None
            if refused is not None:
                return _response(refused)
            if isinstance(handler, Asked):
                found = handler.handler({**request.query, **request.match_info})
            else:
                found = handler(await request.read())
            return _response(found if isinstance(found, HttpReply) else await found)

        return answer


class _Closed(asyncio.Protocol):
    """The protocol of a connection that is one too many."""

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Close it."""
        logger.warning("http_connection_closed reason=too many connections")
        cast("asyncio.Transport", transport).abort()


def prometheus_text(collector: Any) -> HttpReply:
    """Return what a Prometheus scrape of a `Metrics` gets."""
    from prometheus_client import CollectorRegistry, generate_latest

    registry = CollectorRegistry()
    registry.register(collector)
    return HttpReply(generate_latest(registry).decode(), content_type=PROMETHEUS_TEXT)


def _head(route: tuple[str, str], request: "web.Request") -> HttpHead:
    transport = request.transport
    peer = None if transport is None else transport.get_extra_info("peername")
    tls: ssl.SSLObject | None = (
        None if transport is None else transport.get_extra_info("ssl_object")
    )
    return HttpHead(
        route,
        request.match_info,
        peer[0] if peer else "",
        request.headers.get("Authorization"),
        None if tls is None else tls.getpeercert(binary_form=True),
    )


def _response(reply: HttpReply) -> "web.Response":
    from aiohttp import web

    if isinstance(reply.body, str):
        kind = {"Content-Type": reply.content_type or "text/plain; charset=utf-8"}
        headers = {**reply.headers, **kind}
        return web.Response(body=reply.body.encode(), status=reply.status, headers=headers)
    return web.Response(
        text=json.dumps(reply.body),
        status=reply.status,
        content_type="application/json",
        headers=reply.headers,
    )
