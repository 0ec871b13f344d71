"""A listening socket whose connections are not encrypted."""

import asyncio
from collections.abc import Callable


class PlainListener:
    """Sockets for the addresses of one host and port. All calls come from the loop."""

    def __init__(self, make: Callable[[], asyncio.BaseProtocol], backlog: int) -> None:
        """`make`: the protocol of a connection that is accepted."""
        self._make = make
        self._backlog = backlog
        self._server: asyncio.Server | None = None

    @property
    def port(self) -> int:
        """The real port when 0 was asked for."""
        assert self._server is not None, "it was bound"
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def bind(self, host: str, port: int) -> None:
        """Take the addresses; an empty host is all of them. Errors: OSError; none is taken then."""
        self._server = await asyncio.get_running_loop().create_server(
            self._make, host or None, port, backlog=self._backlog, start_serving=False
        )

    async def serve(self) -> None:
        """Listen. Errors: OSError: another process took an address as well, and listens."""
        assert self._server is not None, "it was bound"
        await self._server.start_serving()

    def close(self) -> None:
        """Listen no more. Connections are their owners'. Idempotent."""
        if self._server is not None:
            self._server.close()
