"""Health and metrics over HTTP, for people and for what watches a process.

Small on purpose: a table of routes, each a function that returns text or JSON. aiohttp does the
protocol; it loads only when a server is started, because `tailrace start` without one must be
ready well under a second.
"""

import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

if TYPE_CHECKING:
    import socket

    from aiohttp import web

logger = logging.getLogger(__name__)

BODY_BYTES_MAX: Final = 64 * 1024
"""A longer request body is refused with 413."""
_BACKLOG: Final = 32
_CLOSE_S: Final = 2.0

PROMETHEUS_TEXT: Final = "text/plain; version=0.0.4; charset=utf-8"


@dataclass(frozen=True, slots=True)
class HttpReply:
    """An answer: text as it is, anything else as JSON."""

    body: Any
    status: int = 200
    content_type: str = ""


Handler: TypeAlias = Callable[[bytes], Awaitable[HttpReply] | HttpReply]
"""Answers one request; the argument is its body. Errors: answered as 500, logged once."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A route whose handler wants to know what was asked: names in the path, then the query."""

    handler: Callable[[Mapping[str, str]], Awaitable[HttpReply] | HttpReply]


class HttpServer:
    """One HTTP port with fixed routes: (method, path) -> handler."""

    def __init__(
        self, host: str, port: int, routes: Mapping[tuple[str, str], Handler | Asked]
    ) -> None:
        """`port`: 0 picks a free one; see `port` after `start`."""
        self.host = host
        self.port = port
        self._routes = dict(routes)
        self._runner: web.AppRunner | None = None

    async def start(self, listening: "socket.socket | None" = None) -> None:
        """Listen, or serve a socket that listens. Errors: OSError when the address is taken."""
        from aiohttp import web

        app = web.Application(client_max_size=BODY_BYTES_MAX)
        for (method, path), handler in self._routes.items():
            app.router.add_route(method, path, _adapted(handler))
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=_CLOSE_S)
        await runner.setup()
        self._runner = runner
        try:
            site: web.BaseSite = (
                web.TCPSite(runner, self.host, self.port, backlog=_BACKLOG)
                if listening is None
                else web.SockSite(runner, listening, backlog=_BACKLOG)
            )
            await site.start()
        except BaseException:
            await self.close()
            raise
        self.port = runner.addresses[0][1]

    async def close(self) -> None:
        """Stop listening and end what is open, within two seconds. Idempotent."""
        runner, self._runner = self._runner, None
        if runner is not None:
            await runner.cleanup()


def prometheus_text(collector: Any) -> HttpReply:
    """Return what a Prometheus scrape of a `Metrics` gets."""
    from prometheus_client import CollectorRegistry, generate_latest

    registry = CollectorRegistry()
    registry.register(collector)
    return HttpReply(generate_latest(registry).decode(), content_type=PROMETHEUS_TEXT)


def _adapted(handler: Handler | Asked) -> "Callable[[web.Request], Awaitable[web.Response]]":
    async def answer(request: "web.Request") -> "web.Response":
        if isinstance(handler, Asked):
            found = handler.handler({**request.query, **request.match_info})
        else:
            found = handler(await request.read())
        return _response(found if isinstance(found, HttpReply) else await found)

    return answer


def _response(reply: HttpReply) -> "web.Response":
    from aiohttp import web

    if isinstance(reply.body, str):
        headers = {"Content-Type": reply.content_type or "text/plain; charset=utf-8"}
        return web.Response(body=reply.body.encode(), status=reply.status, headers=headers)
    return web.Response(
        text=json.dumps(reply.body), status=reply.status, content_type="application/json"
    )
