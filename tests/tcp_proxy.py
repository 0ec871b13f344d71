"""A wire that a test can cut: forwards connections to one server, or loses what it says."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Self


@contextmanager
def wire_to(target_port: int) -> Iterator["Wire"]:
    """Forward to a port from a thread of its own, for tests without a loop."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        wire = Wire(TcpProxy(target_port), loop)
        wire.mend()
        yield wire
        wire.cut()
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


class TcpProxy:
    """Listens on a port of 127.0.0.1 and forwards to another. On the loop of the test.

    `mute` swallows what the server says: requests are done, their answers are lost.
    """

    def __init__(self, target_port: int) -> None:
        self._target_port = target_port
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._is_muted = False
        self.port = 0
        self.garbage = b""
        """Sent to the client in place of the server's next words."""
        self.heard = asyncio.Event()
        """Set when the server said something that was swallowed."""

    @property
    def hosts(self) -> str:
        return f"127.0.0.1:{self.port}"

    async def __aenter__(self) -> Self:
        await self.mend()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.cut()

    def mute(self) -> None:
        """Lose the server's answers from now on."""
        self._is_muted = True
        self.heard.clear()

    async def cut(self) -> None:
        """Close every connection and accept no more."""
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()
            self._server = None
        for writer in self._writers:
            writer.close()
        self._writers.clear()

    async def mend(self) -> None:
        """Accept connections (again), on the same port."""
        self._is_muted = False
        self._server = await asyncio.start_server(self._forward, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there, back = await asyncio.open_connection("127.0.0.1", self._target_port)
        except OSError:
            writer.close()
            return
        self._writers |= {writer, back}
        async with asyncio.TaskGroup() as both:
            both.create_task(self._copy(reader, back))
            both.create_task(self._copy_answers(there, writer))

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65_536):
                writer.write(data)
        except OSError:
            pass  # the other end was cut
        writer.close()

    async def _copy_answers(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        try:
            while data := await reader.read(65_536):
                if self._is_muted:
                    self.heard.set()
                    continue
                writer.write(self.garbage or data)
        except OSError:
            pass
        writer.close()


class Wire:
    """A `TcpProxy` on the loop of another thread."""

    def __init__(self, proxy: TcpProxy, loop: asyncio.AbstractEventLoop) -> None:
        self._proxy = proxy
        self._loop = loop

    @property
    def hosts(self) -> str:
        return self._proxy.hosts

    def cut(self) -> None:
        """Close every connection and accept no more."""
        asyncio.run_coroutine_threadsafe(self._proxy.cut(), self._loop).result(10)

    def mend(self) -> None:
        """Accept connections (again)."""
        asyncio.run_coroutine_threadsafe(self._proxy.mend(), self._loop).result(10)
