"""A bookie that speaks TLS, its clients, and connections that begin as a test likes."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import uvloop

from tailrace.bookie.app import BookieProcess
from tailrace.bookie.security_config import BookieSecurity
from tailrace.core.ledger.config import BookieClientConfig
from tailrace.core.ledger.security_config import BookieClientSecurity
from tailrace.core.ledger.tcp_bookie import TcpBookieClient
from tailrace.core.security.bookkeeper_tls_config import FACTORY, BookKeeperTlsConfig
from tailrace.protocol.bookkeeper.codec import decode_response
from tailrace.protocol.bookkeeper.messages import Response
from tailrace.protocol.ids import BookieId
from tests.certificates import Authority
from tests.unit.bookie.tcp import Wire, served

HOST = "127.0.0.1"


class Keys:
    """The files of a bookie and of its clients."""

    def __init__(self, authority: Authority) -> None:
        self.authority = authority
        self.bookie = authority.store("bookie", HOST)
        self.client = authority.store("client")

    def of_bookie(self, **changes: Any) -> BookKeeperTlsConfig:
        given = {"keystore": self.bookie, "truststore": self.authority.certificate, **changes}
        return BookKeeperTlsConfig(factory=FACTORY, **given)

    def of_client(self, **changes: Any) -> BookKeeperTlsConfig:
        return BookKeeperTlsConfig(
            factory=FACTORY, **{"truststore": self.authority.certificate, **changes}
        )


@asynccontextmanager
async def bookie_with(
    directory: Path, tls: BookKeeperTlsConfig, **changes: Any
) -> AsyncIterator[BookieProcess]:
    async with served(directory, security=BookieSecurity(tls=tls, **changes)) as process:
        yield process


def client_of(process: BookieProcess, tls: BookKeeperTlsConfig, **changes: Any) -> TcpBookieClient:
    return client_at(process.server.port, tls, **changes)


def client_at(port: int, tls: BookKeeperTlsConfig, **changes: Any) -> TcpBookieClient:
    return client_with(port, BookieClientSecurity(tls=tls), **changes)


def client_with(port: int, security: BookieClientSecurity, **changes: Any) -> TcpBookieClient:
    async def resolve() -> tuple[str, int]:
        return HOST, port

    config = BookieClientConfig(security=security, **changes)
    return TcpBookieClient(BookieId("test:3181"), resolve, config)


async def hear(wire: Wire) -> Response:
    """Return the next v3 answer."""
    return decode_response(await wire.receive())[1]


def on_both_loops(story: Callable[[Path], Coroutine[Any, Any, None]], directory: Path) -> None:
    """Run a story on asyncio's loop and on the one of our processes: each has its own TLS."""

    async def main(name: str) -> None:
        async with asyncio.timeout(30):
            await story(directory / name)

    asyncio.run(main("asyncio"), debug=True)
    uvloop.run(main("uvloop"))
