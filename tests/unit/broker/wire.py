"""A client made of sockets and the codecs: frames out, answers in."""

import asyncio
import struct
from typing import Any, TypeVar

from tailrace.broker.config import BrokerConfig, NetworkConfig
from tailrace.broker.server import BrokerServer
from tailrace.protocol.kafka.api import Api
from tailrace.protocol.kafka.codec import decode_response, encode_request
from tailrace.protocol.kafka.header import RequestHeader, decode_response_header, request_frame
from tests.unit.broker.fakes import World, make_world
from tests.unit.broker.loops import turns, until

Q = TypeVar("Q")
R = TypeVar("R")


def left_in_budgets(server: BrokerServer) -> dict[str, int]:
    """Return what is taken and not given back, by the names of the budgets."""
    used = {each.name: each.used for each in server.budgets if each.used}
    lane = server._broker.partitions.shared.lane
    return used | ({"lane": len(lane)} if len(lane) else {})


class WireClient:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self._correlation = 0

    @classmethod
    async def connect(cls, port: int) -> "WireClient":
        return cls(*await asyncio.open_connection("127.0.0.1", port, limit=1 << 24))

    def send(self, api: Api[Q, Any], version: int, request: Q, client_id: str = "wire") -> int:
        """Send without waiting; return the correlation id."""
        self._correlation += 1
        header = RequestHeader(api.key, version, self._correlation, client_id)
        self.writer.write(request_frame(api, header, encode_request(api, version, request)))
        return self._correlation

    async def receive_frame(self) -> bytes:
        size = struct.unpack(">i", await self.reader.readexactly(4))[0]
        return await self.reader.readexactly(size)

    async def receive(self, api: Api[Any, R], version: int) -> tuple[int, R]:
        """Return the next answer with its correlation id."""
        frame = memoryview(await self.receive_frame())
        correlation, at = decode_response_header(api, version, frame)
        return correlation, decode_response(api, version, frame[at:])

    async def ask(self, api: Api[Q, R], version: int, request: Q, client_id: str = "wire") -> R:
        sent = self.send(api, version, request, client_id)
        got, response = await self.receive(api, version)
        assert got == sent
        return response

    async def is_closed(self) -> bool:
        """Wait until the broker closes; anything it says before is dropped."""
        try:
            return await self.reader.read() is not None
        except ConnectionError:
            return True

    def close(self) -> None:
        self.writer.close()


class Served:
    """A broker over fakes, on a port. At its end nothing may be left in any budget."""

    def __init__(self, *, auto: bool = True, **network: Any) -> None:
        network.setdefault("listeners", ("PLAINTEXT://127.0.0.1:0",))
        config = BrokerConfig(network=NetworkConfig(**network))
        self.world: World = make_world(auto=auto, config=config)
        self.server = BrokerServer(self.world.broker)
        self._clients: list[WireClient] = []

    async def __aenter__(self) -> "Served":
        await self.server.start()
        return self

    async def __aexit__(self, failure: object, *_: object) -> None:
        for client in self._clients:
            client.close()
        await self.server.close()
        await self.world.broker.partitions.close()
        if failure is None:
            await until(lambda: not self.world.broker.metrics.connections)
            await turns()
            assert left_in_budgets(self.server) == {}

    async def client(self) -> WireClient:
        client = await WireClient.connect(self.server.port)
        self._clients.append(client)
        return client
