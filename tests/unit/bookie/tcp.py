"""A bookie behind its socket, and a client of bare frames."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Self

from tailrace.bookie.app import BookieProcess, start_bookie
from tailrace.core.runtime.clock import ManualClock
from tailrace.core.runtime.files import SystemFiles
from tailrace.protocol.bookkeeper.codec import decode_response, encode_request
from tailrace.protocol.bookkeeper.messages import Request, Response
from tests.unit.bookie.world import small_config


@asynccontextmanager
async def served(directory: Path, **changes: Any) -> AsyncIterator[BookieProcess]:
    config = small_config(directory, **changes)
    process = await start_bookie(config, None, ManualClock(), SystemFiles())
    try:
        yield process
    finally:
        await process.close()


class Wire:
    """One connection; frames go out as they are, and come back as they are."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def to(cls, process: BookieProcess) -> Self:
        return await cls.to_port(process.server.port)

    @classmethod
    async def to_port(cls, port: int) -> Self:
        return cls(*await asyncio.open_connection("127.0.0.1", port))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.writer.close()
        try:
            await self.writer.wait_closed()
        except ConnectionError:
            return  # the bookie was first

    def send(self, frame: bytes) -> None:
        self.writer.write(len(frame).to_bytes(4, "big") + frame)

    async def receive(self) -> bytes:
        """Return the next frame. Errors: IncompleteReadError, ConnectionError: it was closed."""
        size = int.from_bytes(await self.reader.readexactly(4), "big")
        return await self.reader.readexactly(size)

    async def ask(self, request: Request, txn_id: int = 1) -> Response:
        """Send a v3 request and return its answer."""
        self.writer.writelines(encode_request(txn_id, request))
        number, response = decode_response(await self.receive())
        assert number == txn_id
        return response

    async def is_closed(self) -> bool:
        """Wait until the bookie closes; False if it says something instead."""
        try:
            return await self.reader.read(1) == b""
        except ConnectionError:
            return True
