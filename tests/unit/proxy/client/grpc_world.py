"""Proxies over a real namespace, served by real gRPC on loopback ports, in one process."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple

from tailrace.core.metadata.ledger_tree import initialize_layout
from tailrace.protocol.proxy.methods import READ_PROXY, WRITE_PROXY
from tailrace.proxy.owner.config import OwnerConfig, proxy_log_config
from tailrace.proxy.owner.location import ProxyLocation
from tailrace.proxy.owner.streams import Streams
from tailrace.proxy.reading.config import ReadConfig
from tailrace.proxy.reading.read_service import ReadService
from tailrace.proxy.service.config import GrpcConfig, WriteServiceConfig
from tailrace.proxy.service.grpc_server import GrpcServer
from tailrace.proxy.service.write_service import WriteService
from tests.unit.proxy.owner.world import SESSION_TIMEOUT_MS, ProxyWorld

WITHIN_S: Final = 60


class GrpcProxy(NamedTuple):
    """One proxy, with a session of its own."""

    address: str
    streams: Streams
    server: GrpcServer
    store: Any

    async def kill(self) -> None:
        """End its connections, and its session, as its death would."""
        await self.server.kill()
        self.store.expire()


class Server(GrpcServer):
    """A server that can end at once."""

    async def kill(self) -> None:
        await self._server.stop(None)


@asynccontextmanager
async def proxy(world: ProxyWorld, shard: int) -> AsyncIterator[GrpcProxy]:
    server = Server(GrpcConfig(grace_ms=100))
    port = server.bind("127.0.0.1", 0)
    location = ProxyLocation(shard, "127.0.0.1", port)
    store = world.server.open()
    config = proxy_log_config(replace(world.config, control_flush_ms=50), location)
    namespace = world.namespace(store, config=config)
    streams = Streams(
        namespace,
        location,
        world.clock,
        OwnerConfig(claim_pause_ms=10),
        session_timeout_ms=SESSION_TIMEOUT_MS,
    )
    reading = ReadService(world.namespace(world.server.open()), world.clock, ReadConfig())
    server.add(WRITE_PROXY, WriteService(streams, location, WriteServiceConfig()))
    server.add(READ_PROXY, reading)
    await server.start()
    try:
        yield GrpcProxy(f"127.0.0.1:{port}", streams, server, store)
    finally:
        await server.close()
        await reading.close()
        await streams.close()


def run(
    path: Path, story: Callable[[ProxyWorld, GrpcProxy, GrpcProxy], Coroutine[Any, Any, None]]
) -> None:
    """Tell a story on two proxies."""

    async def main() -> None:
        world = ProxyWorld(path, 1)
        await initialize_layout(world.store, instance_id="test")
        async with asyncio.timeout(WITHIN_S), proxy(world, 0) as one, proxy(world, 1) as two:
            await story(world, one, two)

    asyncio.run(main())
