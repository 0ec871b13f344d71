"""An HTTP port that costs nothing until somebody asks."""

import asyncio
import importlib
import socket
from collections.abc import Mapping

from tailrace.core.runtime.http import Asked, Handler, HttpServer
from tailrace.core.runtime.tasks import Tasks

_BACKLOG = 32


class LateHttpServer:
    """Listens at once and loads its server, some 300 ms, at the first connection, in a thread."""

    def __init__(
        self, host: str, port: int, routes: Mapping[tuple[str, str], Handler | Asked]
    ) -> None:
        """`port`: 0 picks a free one; see `port` after `listen`."""
        self.host = host
        self.port = port
        self._server = HttpServer(host, port, routes)
        self._tasks = Tasks("late http")
        self._listening: socket.socket | None = None

    def listen(self) -> None:
        """Take the address; who connects is served. Errors: OSError when it is taken."""
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        listening = socket.create_server((self.host, self.port), family=family, backlog=_BACKLOG)
        listening.setblocking(False)  # noqa: FBT003 - its own name for it
        self.port = listening.getsockname()[1]
        self._listening = listening
        asyncio.get_running_loop().add_reader(listening, self._on_first, listening)

    async def close(self) -> None:
        """Stop listening and end what is open. Idempotent."""
        await self._tasks.close()
        await self._server.close()
        listening, self._listening = self._listening, None
        if listening is not None:  # nobody ever asked
            asyncio.get_running_loop().remove_reader(listening)
            listening.close()

    def _on_first(self, listening: socket.socket) -> None:
        asyncio.get_running_loop().remove_reader(listening)
        self._listening = None  # the server closes it
        self._tasks.start(self._serve(listening), "serve")

    async def _serve(self, listening: socket.socket) -> None:
        await asyncio.to_thread(importlib.import_module, "aiohttp.web")
        await self._server.start(listening)
