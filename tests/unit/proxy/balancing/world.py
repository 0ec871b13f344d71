"""Proxies that an operator asks without gRPC: their services over a namespace, in virtual time."""

import asyncio
from typing import TYPE_CHECKING, Any

from google.protobuf.message import Message
from typing_extensions import override

from tailrace.protocol.proxy.methods import PROXY_ADMIN, WRITE_PROXY, Method
from tailrace.proxy.balancing.proxies import Registered
from tailrace.proxy.client.reactions import Trouble
from tailrace.proxy.client.transport import Call, CallFailed, Transport
from tailrace.proxy.routing.hosts import Member
from tailrace.proxy.routing.ring import Host
from tailrace.proxy.service.admin_service import AdminService
from tests.unit.proxy.owner.world import Proxy
from tests.unit.proxy.service.world import service_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


def registered(proxy: Proxy, region: str = "") -> Registered:
    at = proxy.location
    return Registered(Member(at.shard, at.shard, Host(at.host, at.port), region), "ALIVE", 0)


class Direct(Transport):
    """Calls services in this process. `away`: hosts that do not answer; `asked`: what was asked."""

    def __init__(self, *proxies: Proxy) -> None:
        self.away: set[Host] = set()
        self.hung: set[Host] = set()
        self.asked: list[str] = []
        self._services: dict[Host, dict[str, object]] = {}
        for proxy in proxies:
            writes = service_of(proxy)
            services = {
                WRITE_PROXY.name: writes,
                PROXY_ADMIN.name: AdminService(proxy.streams, writes),
            }
            self._services[Host(proxy.location.host, proxy.location.port)] = services

    @override
    async def call(self, host: Host, method: Method, request: Message, timeout_s: float) -> Message:
        self.asked.append(method.name)
        try:
            async with asyncio.timeout(timeout_s):
                if host in self.hung:
                    await asyncio.Event().wait()
                answer: Message = await self._method(host, method)(request)
                return answer
        except TimeoutError as error:
            raise CallFailed(Trouble.TIMED_OUT, "") from error

    @override
    async def open(self, host: Host, method: Method) -> Call:
        self.asked.append(method.name)
        return _Answers(self._method(host, method))

    @override
    def forget(self, host: Host) -> None:
        pass

    @override
    async def close(self) -> None:
        pass

    def _method(self, host: Host, method: Method) -> Any:
        if host in self.away or host not in self._services:
            raise CallFailed(Trouble.NOT_CONNECTED, "it is away")
        service = method.path.split("/")[1]
        return getattr(self._services[host][service], method.name)


class _Answers(Call):
    def __init__(self, method: Any) -> None:
        self._method = method
        self._answers: AsyncIterator[Message] | None = None

    @override
    async def send(self, message: Message | bytes) -> None:
        self._answers = aiter(self._method(message))

    @override
    async def done_sending(self) -> None:
        pass

    @override
    async def receive(self) -> Message | None:
        assert self._answers is not None
        return await anext(self._answers, None)

    @override
    def cancel(self) -> None:
        pass
