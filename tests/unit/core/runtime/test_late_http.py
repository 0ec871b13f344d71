"""An HTTP port that loads its server when somebody asks."""

import asyncio
import socket
import subprocess
import sys
import urllib.request
from typing import Any

import pytest

from tailrace.core.runtime.http import HttpReply
from tailrace.core.runtime.late_http import LateHttpServer

ROUTES: dict[tuple[str, str], Any] = {("GET", "/"): lambda _: HttpReply("here")}


def read(port: int) -> bytes:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=30) as response:
        body: bytes = response.read()
        return body


def test_several_who_come_before_it_is_loaded_are_answered() -> None:
    async def run() -> list[bytes]:
        server = LateHttpServer("127.0.0.1", 0, ROUTES)
        server.listen()
        async with asyncio.TaskGroup() as group:
            asking = [group.create_task(asyncio.to_thread(read, server.port)) for _ in range(3)]
        await server.close()
        await server.close()
        with pytest.raises(OSError, match="refused"):
            socket.create_connection(("127.0.0.1", server.port), 10)
        return [each.result() for each in asking]

    assert asyncio.run(run()) == [b"here"] * 3


def test_one_that_nobody_asks_is_closed_too() -> None:
    async def run() -> None:
        server = LateHttpServer("::1", 0, ROUTES)
        server.listen()
        port = server.port
        await server.close()
        with socket.create_server(("::1", port), family=socket.AF_INET6):
            pass

    asyncio.run(run())


def test_an_address_that_is_taken() -> None:
    async def run(port: int) -> None:
        with pytest.raises(OSError, match="in use"):
            LateHttpServer("127.0.0.1", port, ROUTES).listen()

    with socket.create_server(("127.0.0.1", 0)) as taken:
        asyncio.run(run(taken.getsockname()[1]))


def test_who_only_listens_loads_no_server() -> None:
    code = (
        "import asyncio, sys; from tailrace.core.runtime.late_http import LateHttpServer\n"
        "async def run():\n"
        "    server = LateHttpServer('127.0.0.1', 0, {}); server.listen(); await server.close()\n"
        "asyncio.run(run()); print('aiohttp' in sys.modules)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert ran.stdout == "False\n"
