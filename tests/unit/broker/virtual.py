"""Connections of a broker over fakes, in virtual time: no sockets, no waiting, exact moments."""

import asyncio
import struct
from collections.abc import Awaitable, Callable, Sequence
from functools import wraps
from random import Random
from typing import TYPE_CHECKING, Any, TypeVar

from tailrace.broker.config import BrokerConfig
from tailrace.broker.handlers import HANDLERS, Handler
from tailrace.broker.quotas.client_quotas import ClientQuotas
from tailrace.broker.quotas.registry import QuotaRegistry
from tailrace.broker.server import BrokerServer
from tailrace.protocol.kafka.api import Api
from tailrace.protocol.kafka.codec import decode_response, encode_request
from tailrace.protocol.kafka.header import RequestHeader, decode_response_header, request_frame
from tailrace.simulation.loop import SimLoop
from tests.unit.broker.fakes import World, make_world
from tests.unit.broker.loops import turns
from tests.unit.broker.wire import left_in_budgets

if TYPE_CHECKING:
    from tailrace.core.runtime.net import FrameChannel

Q = TypeVar("Q")
R = TypeVar("R")


def in_virtual_time(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Run an async test in a loop whose time jumps to the next timer; a hang is a Deadlock.

    At its end nothing may be left in any budget of the brokers that it made.
    """

    @wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        async def body() -> None:
            made = VirtualBroker.made = []
            await test(*args, **kwargs)
            for broker in made:
                await broker.close()
                assert left_in_budgets(broker.server) == {}

        with asyncio.Runner(loop_factory=lambda: SimLoop(Random(1))) as runner:
            runner.run(body())
            loop = runner.get_loop()
            assert isinstance(loop, SimLoop)
            assert not loop.failures, loop.failures

    return run


class LoopClock:
    """The loop's time, and what handlers are made to spend."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.spent_s = 0.0

    def now_ms(self) -> int:
        return 1_700_000_000_000 + int(self.monotonic_s() * 1000)

    def monotonic_s(self) -> float:
        return self._loop.time() + self.spent_s


class _Transport(asyncio.Transport):
    """A socket that takes everything; what comes while nobody reads waits in it."""

    def __init__(self, host: str) -> None:
        super().__init__()
        self.host = host
        self.channel: FrameChannel | None = None
        self.reading = True
        self.closed = asyncio.Event()
        self.came = bytearray()
        self.written = bytearray()
        self.wrote = asyncio.Event()

    def get_extra_info(self, name: str, default: object = None) -> object:
        return (self.host, 5) if name == "peername" else default

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return 0

    def is_closing(self) -> bool:
        return self.closed.is_set()

    def writelines(self, list_of_data: Sequence[bytes]) -> None:  # type: ignore[override]
        for part in list_of_data:
            self.written += part
        self.wrote.set()

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True
        asyncio.get_running_loop().call_soon(self.deliver)

    def close(self) -> None:
        if not self.closed.is_set():
            self.closed.set()
            assert self.channel is not None
            asyncio.get_running_loop().call_soon(self.channel.connection_lost, None)

    def abort(self) -> None:
        self.close()

    def deliver(self) -> None:
        while self.came and self.reading and not self.closed.is_set():
            assert self.channel is not None
            buffer = self.channel.get_buffer(-1)
            size = min(len(buffer), len(self.came))
            buffer[:size] = self.came[:size]
            del self.came[:size], buffer
            self.channel.buffer_updated(size)


class VirtualClient:
    """One connection."""

    def __init__(self, server: BrokerServer, host: str = "10.0.0.1") -> None:
        self.transport = _Transport(host)
        self._correlation = 0
        self.transport.channel = server._make_connection("PLAINTEXT")
        self.transport.channel.connection_made(self.transport)

    @property
    def is_read(self) -> bool:
        """Whether the broker reads this connection."""
        return self.transport.reading

    def send(self, api: Api[Q, Any], version: int, request: Q, client: str | None) -> None:
        self._correlation += 1
        header = RequestHeader(api.key, version, self._correlation, client)
        self.transport.came += request_frame(api, header, encode_request(api, version, request))
        self.transport.deliver()

    async def receive(self, api: Api[Any, R], version: int) -> R:
        written = self.transport.written
        while len(written) < 4 or len(written) < 4 + struct.unpack_from(">i", written)[0]:
            self.transport.wrote.clear()
            await self.transport.wrote.wait()
        size = struct.unpack_from(">i", written)[0]
        frame = memoryview(bytes(written[4 : 4 + size]))
        del written[: 4 + size]
        _, at = decode_response_header(api, version, frame)
        return decode_response(api, version, frame[at:])

    async def ask(self, api: Api[Q, R], version: int, request: Q, client: str | None = "app") -> R:
        self.send(api, version, request, client)
        return await self.receive(api, version)


class VirtualBroker:
    """A broker over fakes whose time is the loop's."""

    made: "list[VirtualBroker]"
    """By the test that runs."""

    def __init__(self, config: BrokerConfig | None = None) -> None:
        self.world: World = make_world(config=config)
        self.clock = LoopClock()
        broker = self.world.broker
        self.quotas = ClientQuotas(broker.config.quotas, self.clock)
        no_store: Any = None
        broker.quotas = QuotaRegistry(no_store, "/quotas", self.quotas)
        self.server = BrokerServer(broker)
        self._clients: list[VirtualClient] = []
        self.made.append(self)

    async def close(self) -> None:
        """Have all clients gone, and everything settled."""
        for client in self._clients:
            client.transport.close()
        await self.world.broker.partitions.close()
        await turns()

    @property
    def now_ms(self) -> int:
        return round(asyncio.get_running_loop().time() * 1000)

    def client(self, host: str = "10.0.0.1") -> VirtualClient:
        client = VirtualClient(self.server, host)
        self._clients.append(client)
        return client

    def spending(self, api: Api[Any, Any], seconds: float) -> Handler:
        """Return a handler that spends time of the loop, then does what the real one does."""
        real = HANDLERS[api.key]

        def slow(ctx: Any, request: Any) -> Any:
            self.clock.spent_s += seconds
            return real.function(ctx, request)

        return real._replace(function=slow)
