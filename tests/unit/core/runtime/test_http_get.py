"""One document over HTTP: whole, or a reason, and never more of it than is asked for."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tailrace.core.errors import Unavailable
from tailrace.core.runtime.http_get import http_get
from tests.unit.broker.loops import in_loop

HEAD = b"HTTP/1.1 200 OK\r\n"


@asynccontextmanager
async def answering(*parts: bytes, endless: bytes = b"") -> AsyncIterator[tuple[str, list[int]]]:
    """Serve one answer; yield its URL, and how many bytes of `endless` were taken."""
    taken = [0]

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"".join(parts))
        try:
            await writer.drain()
            while endless:
                writer.write(endless)
                await writer.drain()
                taken[0] += len(endless)
        except ConnectionError:
            taken.append(-1)  # it had enough
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/", taken


@in_loop
async def test_a_document_is_given_whole() -> None:
    async with answering(HEAD, b"Content-Length: 5\r\n\r\nwhole") as (url, _):
        assert await http_get(url, bytes_max=5, timeout_s=10) == b"whole"
        with pytest.raises(Unavailable, match="more than 4 bytes"):
            await http_get(url, bytes_max=4, timeout_s=10)


@in_loop
async def test_an_answer_without_end_is_given_up() -> None:
    async with answering(HEAD, b"\r\n", endless=b"x" * 65536) as (url, taken):
        with pytest.raises(Unavailable, match="more than 100000 bytes"):
            await http_get(url, bytes_max=100_000, timeout_s=10)
    assert taken[0] < 64 << 20  # what sockets hold, and no more


@in_loop
async def test_a_server_that_is_slow_or_gone_is_given_up() -> None:
    for parts in ((), (HEAD,), (HEAD, b"Content-Length: 9\r\n\r\nx")):
        async with answering(*parts, endless=b"") as (url, _):
            with pytest.raises(Unavailable):
                await http_get(url, bytes_max=100, timeout_s=0.2)
    with pytest.raises(Unavailable):
        await http_get(url, bytes_max=100, timeout_s=10)


@in_loop
async def test_a_url_that_is_none_is_said_so() -> None:
    for url in (
        "http://",
        "http://a b/",
        "http://127.0.0.1:99999/",
        "https://[::1/",
        "file:///x",
        "",
    ):
        with pytest.raises(Unavailable):
            await http_get(url, bytes_max=100, timeout_s=10)
