"""The beginning of a connection: frames one by one, bounds, and what goes to the next protocol."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest
import uvloop
from typing_extensions import override

from tailrace.core.runtime.first_frames import FRAME_BYTES_MAX, FirstFrames, HandshakeFailed
from tailrace.protocol.errors import FrameTooLarge


class Next(asyncio.BufferedProtocol):
    """The protocol behind: keeps what it gets."""

    def __init__(self) -> None:
        self.got = b""
        self.is_done = asyncio.get_running_loop().create_future()
        self._room = bytearray(1 << 20)

    @override
    def get_buffer(self, sizehint: int) -> bytearray:
        return self._room

    @override
    def buffer_updated(self, nbytes: int) -> None:
        self.got += self._room[:nbytes]

    def feed(self, data: bytes) -> None:
        self.got += data

    @override
    def eof_received(self) -> bool:
        self.is_done.set_result(None)
        return False


@asynccontextmanager
async def connection() -> AsyncIterator[tuple[FirstFrames, asyncio.StreamWriter]]:
    """One side that is at its beginning, and a peer that writes."""
    opened: asyncio.Future[FirstFrames] = asyncio.get_running_loop().create_future()
    server = await asyncio.get_running_loop().create_server(
        lambda: FirstFrames(opened.set_result), "127.0.0.1", 0
    )
    _, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    first = await opened
    try:
        yield first, writer
    finally:
        writer.close()
        first.abort()
        server.close()
        await server.wait_closed()


async def until(holds: Callable[[], bool]) -> None:
    """Let the loop turn until something holds; the story's own limit ends this."""
    while True:
        if holds():
            return
        await asyncio.sleep(0)


def on_both_loops(story: Callable[[], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        async with asyncio.timeout(30):
            await story()

    asyncio.run(main(), debug=True)
    uvloop.run(main())


def frame(body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + body


def test_frames_come_one_by_one_however_they_are_cut() -> None:
    async def story() -> None:
        bodies = [b"", b"a", b"b" * 300, b"c" * (FRAME_BYTES_MAX - 4)]
        said = b"".join(map(frame, bodies))
        for cuts in ((), (1, 3, 4, 5, 9), (len(said) - 1,)):
            async with connection() as (first, writer):
                at = 0
                for cut in (*cuts, len(said)):
                    writer.write(said[at:cut])
                    await writer.drain()
                    at = cut
                for body in bodies:
                    assert bytes(await first.receive()) == body
                assert not first.has_more

    on_both_loops(story)


@pytest.mark.parametrize("take_back", [False, True])
def test_the_next_protocol_gets_the_rest(take_back: bool) -> None:
    async def story() -> None:
        async with connection() as (first, writer):
            writer.write(frame(b"mine") + frame(b"theirs") + b"\0\0")
            await first.receive()
            second = await first.receive()
            assert bytes(second) == b"theirs"
            if take_back:
                first.take_back()
            behind = Next()
            first.hand_over(behind)
            writer.write(b"more")
            writer.write_eof()
            await behind.is_done
            assert behind.got == (frame(b"theirs") if take_back else b"") + b"\0\0more"

    on_both_loops(story)


def test_a_large_frame_is_for_the_next_protocol_or_nobody() -> None:
    async def story() -> None:
        body = bytes(range(256)) * 4096
        async with connection() as (first, writer):
            writer.write(frame(body))
            with pytest.raises(FrameTooLarge, match="a frame of 1048576 bytes"):
                await first.receive()
            behind = Next()
            first.hand_over(behind)
            writer.write_eof()
            await behind.is_done
            assert behind.got == frame(body)

    on_both_loops(story)


def test_little_is_read_beyond_the_first_frame() -> None:
    async def story() -> None:
        async with connection() as (first, writer):
            writer.write(frame(b"x"))
            await first.receive()
            writer.write(bytes(64 << 20))  # more than both sockets hold
            await until(lambda: len(first._data) > FRAME_BYTES_MAX)
            for _ in range(100):
                await asyncio.sleep(0)
            assert len(first._data) <= 2 * FRAME_BYTES_MAX
            writer.transport.abort()

    on_both_loops(story)


def test_the_end_of_a_connection() -> None:
    async def story() -> None:
        async with connection() as (first, writer):
            writer.write(b"\0\0\0\x05half")
            writer.write_eof()
            with pytest.raises(ConnectionError, match="the connection ended"):
                await first.receive()
            with pytest.raises(ConnectionError):
                first.hand_over(Next())
            with pytest.raises(HandshakeFailed, match="ended before the handshake"):
                await first.start_tls(None)  # type: ignore[arg-type]
            first.close()
            first.abort()

    on_both_loops(story)


def test_a_frame_that_came_whole_before_the_end() -> None:
    async def story() -> None:
        async with connection() as (first, writer):
            writer.write(frame(b"last"))
            writer.close()
            await until(lambda: first._lost is not None)
            assert bytes(await first.receive()) == b"last"
            with pytest.raises(ConnectionError, match="the connection ended"):
                await first.receive()

    on_both_loops(story)
