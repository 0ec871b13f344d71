"""A write service over a real namespace, in virtual time."""

from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any

from tailrace.protocol.proxy.write_proxy_pb2 import WriteStreamRequest, WriteStreamResponse
from tailrace.proxy.owner.context import ReservedStream, none_reserved
from tailrace.proxy.service.config import WriteServiceConfig
from tailrace.proxy.service.write_service import WriteService
from tests.unit.proxy.owner.world import Proxy


def service_of(
    proxy: Proxy, reserved: ReservedStream = none_reserved, **config: Any
) -> WriteService:
    return WriteService(proxy.streams, proxy.location, WriteServiceConfig(**config), reserved)


class Requests:
    """The requests of a call, and how many were read."""

    def __init__(self, requests: Iterable[Any], then: Callable[[], Any] | None = None) -> None:
        self.read = 0
        self._requests = requests
        self._then = then

    async def __aiter__(self) -> AsyncIterator[WriteStreamRequest]:
        for request in self._requests:
            self.read += 1
            yield request
        if self._then is not None:
            await self._then()


def decoded(answer: WriteStreamResponse | bytes) -> WriteStreamResponse:
    if isinstance(answer, bytes):
        return WriteStreamResponse.FromString(answer)
    return answer


async def answers_to(service: WriteService, *requests: Any) -> list[WriteStreamResponse]:
    call = service.write_stream(aiter(Requests(requests)))
    return [decoded(each) async for each in call]
