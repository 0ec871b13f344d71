"""Thin clients before real proxies, in virtual time: services are called as gRPC's server does.

The transport passes bytes, so what is sent is what a wire would carry. A host may die (calls break,
no connection is made), or hang (calls are taken, nothing is answered).
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

from google.protobuf.message import Message
from typing_extensions import override

from tailrace.protocol.proxy.methods import Method
from tailrace.proxy.client.client import ClientRoutes, ProxyClient
from tailrace.proxy.client.config import ClientConfig
from tailrace.proxy.client.reactions import Trouble
from tailrace.proxy.client.routes import Routes, Source
from tailrace.proxy.client.transport import Call, CallFailed, Transport
from tailrace.proxy.owner.codes import StatusCode
from tailrace.proxy.owner.operations import Answer
from tailrace.proxy.reading.config import ReadConfig
from tailrace.proxy.reading.read_service import ReadService
from tailrace.proxy.routing.hosts import Member
from tailrace.proxy.routing.ring import Host
from tailrace.proxy.service.answers import header_of
from tests.unit.proxy.owner import world as owner_world
from tests.unit.proxy.owner.world import Proxy, ProxyWorld
from tests.unit.proxy.service.world import service_of

VISIBLE = {"control_flush_ms": 100}
"""Readers see a record after so long, as by default."""
WITHIN_S = 1_000
"""Virtual seconds of a story."""
CONNECTED_S = 0.001
"""What each way takes."""


def host_of(proxy: Proxy) -> Host:
    return Host(proxy.location.host, proxy.location.port)


class Net(Transport):
    """Services by host, and what is wrong with them."""

    def __init__(self) -> None:
        self.services: dict[Host, list[object]] = {}
        self.dead: set[Host] = set()
        self.hung: set[Host] = set()
        self.calls: list[tuple[Host, str]] = []
        """What was asked, for tests to look at."""
        self.answers: dict[str, list[Any]] = {}
        """By method: answers that are given in the services' place, one after the other."""
        self.open_calls: dict[Host, set[NetCall]] = {}
        self.lost_answers = 0
        """So many unary answers are lost on their way."""

    def serve(self, host: Host, *services: object) -> None:
        self.services[host] = list(services)

    def kill(self, host: Host) -> None:
        self.dead.add(host)
        for call in list(self.open_calls.get(host, ())):
            call.break_()

    def count(self, method: str) -> int:
        return sum(name == method for _, name in self.calls)

    def asked(self, method: str) -> list[Host]:
        return [host for host, name in self.calls if name == method]

    @override
    async def call(self, host: Host, method: Method, request: Message, timeout_s: float) -> Any:
        await self._connect(host, method)
        serve = self._method(host, method)
        try:
            async with asyncio.timeout(timeout_s):
                if host in self.hung:
                    await asyncio.Event().wait()
                answer = self._instead(method) or await serve(_again(method.request, request))
                await asyncio.sleep(CONNECTED_S)
        except TimeoutError:
            raise CallFailed(Trouble.TIMED_OUT, "no answer") from None
        if host in self.dead:
            raise CallFailed(Trouble.BROKEN, "it died")
        if self.lost_answers:
            self.lost_answers -= 1
            raise CallFailed(Trouble.BROKEN, "the answer is lost")
        return _again(method.response, answer)

    @override
    async def open(self, host: Host, method: Method) -> Call:
        await self._connect(host, method)
        call = NetCall(self, host, method, self._method(host, method))
        self.open_calls.setdefault(host, set()).add(call)
        return call

    @override
    def forget(self, host: Host) -> None:
        pass

    @override
    async def close(self) -> None:
        pass

    def _instead(self, method: Method) -> Any:
        left = self.answers.get(method.name)
        return left.pop(0) if left else None

    async def _connect(self, host: Host, method: Method) -> None:
        self.calls.append((host, method.name))
        await asyncio.sleep(CONNECTED_S)
        if host in self.dead or host not in self.services:
            raise CallFailed(Trouble.NOT_CONNECTED, "nobody is there")

    def _method(self, host: Host, method: Method) -> Callable[..., Any]:
        for service in self.services[host]:
            if hasattr(service, method.name):
                return getattr(service, method.name)  # type: ignore[no-any-return]
        raise CallFailed(Trouble.NOT_SERVED, method.name)


class NetCall(Call):
    """A call with streams; the service runs in the turns of who receives."""

    def __init__(self, net: Net, host: Host, method: Method, serve: Callable[..., Any]) -> None:
        self._net, self._host, self._method = net, host, method
        self._requests: asyncio.Queue[Message | bytes | None] = asyncio.Queue()
        self._serve = serve
        self._answers: Any = None
        self._broken = asyncio.Event()
        self._ended = False

    def break_(self) -> None:
        self._broken.set()

    @override
    async def send(self, message: Message | bytes) -> None:
        self._check()
        self._requests.put_nowait(message)
        await asyncio.sleep(0)

    @override
    async def done_sending(self) -> None:
        self._check()
        self._requests.put_nowait(None)

    @override
    async def receive(self) -> Any:
        self._check()
        answering = asyncio.create_task(self._next())
        breaking = asyncio.create_task(self._broken.wait())
        try:
            await asyncio.wait([answering, breaking], return_when=asyncio.FIRST_COMPLETED)
            self._check()
            return answering.result()
        finally:
            for task in (answering, breaking):
                task.cancel()
                with suppress(asyncio.CancelledError, CallFailed):
                    await task

    @override
    def cancel(self) -> None:
        if not self._ended:
            self._ended = True
            self._broken.set()
            self._net.open_calls[self._host].discard(self)
            if self._answers is not None:
                LEFT.append(self._answers)

    def _check(self) -> None:
        if self._broken.is_set() or self._host in self._net.dead:
            raise CallFailed(Trouble.BROKEN, "the call is over")

    async def _next(self) -> Any:
        if self._host in self._net.hung:
            await asyncio.Event().wait()
        instead = self._net._instead(self._method)
        if instead is not None:
            return instead
        if self._answers is None:
            self._answers = await self._begin()
        answer = await anext(self._answers, None)
        return None if answer is None else _again(self._method.response, answer)

    async def _begin(self) -> Any:
        if self._method.is_request_stream:
            return self._serve(self._each())
        return self._serve(_again(self._method.request, await self._requests.get()))

    async def _each(self) -> AsyncIterator[Any]:
        while (request := await self._requests.get()) is not None:
            yield _again(self._method.request, request)


LEFT: list[Any] = []
"""Generators of services whose calls are over; gRPC's server closes them."""


def _again(kind: type[Message], message: Any) -> Any:
    return kind.FromString(message if isinstance(message, bytes) else message.SerializeToString())


def answer(kind: type[Message], code: StatusCode, location: str = "", **more: Any) -> Any:
    """Return an answer of a service."""
    return kind(header=header_of(Answer(code, "made up", location)), **more)


class Thin:
    """Proxies, each a process of its own with a session of its own, and clients."""

    def __init__(self, world: ProxyWorld, proxies: int = 2, **config: Any) -> None:
        self.world = world
        self.net = Net()
        self.proxies = [Proxy(world, shard, VISIBLE, **config) for shard in range(proxies)]
        self.hosts = [host_of(proxy) for proxy in self.proxies]
        self._reads: list[ReadService] = []
        for proxy, host in zip(self.proxies, self.hosts, strict=True):
            reading = ReadService(world.namespace(world.server.open()), world.clock, ReadConfig())
            self._reads.append(reading)
            self.net.serve(host, service_of(proxy), reading)
        self.clients: list[ProxyClient] = []
        self._ids = count()

    def client(
        self, *, hosts: list[Host] | None = None, region: str | None = None, **config: Any
    ) -> ProxyClient:
        config = {"idempotence": False} | config
        made = ProxyClient(
            ClientConfig(**config),
            self.net,
            self.world.clock,
            ClientRoutes(Routes([Source()], region), Routes([Source()], region)),
            lambda: b"writer %d" % next(self._ids),
        )
        members = [Member(number, number, host) for number, host in enumerate(hosts or self.hosts)]
        made.writing.update(0, members)
        made.reading.update(0, members)
        self.clients.append(made)
        return made

    def owner(self, stream: str = "s") -> Proxy:
        """Return the proxy that owns a stream."""
        (found,) = [each for each in self.proxies if stream in each.streams.owned]
        return found

    def break_calls(self) -> None:
        """Break the connection of each call that is open."""
        for calls in self.net.open_calls.values():
            for call in list(calls):
                call.break_()

    async def ledger_id(self, stream: str = "s") -> int:
        """Return the ledger of its newest segment, as a read proxy names it."""
        log = await self.world.log(stream)
        await log.refresh()
        assert log.segments.last is not None
        return log.segments.last.ledger_id

    async def payloads(self, stream: str = "s") -> list[bytes]:
        """Return what is written, once the owner has let go."""
        for proxy in self.proxies:
            await proxy.streams.release(stream)
        return await owner_world.payloads_of(self.world, stream)

    async def kill(self, proxy: Proxy) -> None:
        """End a proxy as SIGKILL does: its connections at once, its session later."""
        self.net.kill(host_of(proxy))
        loop = asyncio.get_running_loop()
        loop.call_later(1.0, proxy.store.expire)

    async def close(self) -> None:
        for client in self.clients:
            await client.flush()
            await client.close()
        assert not any(self.net.open_calls.values()), "a call is left"
        for generator in LEFT:
            await generator.aclose()
        LEFT.clear()
        for reading in self._reads:
            await reading.close()
        for proxy in self.proxies:
            await proxy.streams.close()


def run(
    path: Path,
    story: Callable[[Thin], Coroutine[Any, Any, None]],
    proxies: int = 2,
    **config: Any,
) -> None:
    async def main(world: ProxyWorld) -> None:
        thin = Thin(world, proxies, **config)
        await owner_world.new_stream(world)
        try:
            async with asyncio.timeout(WITHIN_S):
                await story(thin)
        finally:
            await thin.close()

    owner_world.run(path, main)
