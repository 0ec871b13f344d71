"""A plain gRPC client of a proxy, one call at a time: what any language's generated code does."""

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

import grpc

from tailrace.protocol.proxy.methods import READ_PROXY, WRITE_PROXY, Method, Service
from tailrace.protocol.proxy.write_proxy_pb2 import WriteStreamRequest

CALL_WITHIN_S = 60


def _bytes(message: Any) -> bytes:
    data: bytes = message if isinstance(message, bytes) else message.SerializeToString()
    return data


class ProxyCalls:
    """The methods of one service, by name; a request may be given as bytes."""

    def __init__(self, channel: grpc.aio.Channel, service: Service = WRITE_PROXY) -> None:
        self.channel = channel
        self._methods = service.methods

    async def __call__(self, name: str, request: Any) -> Any:
        """Return the answer of a call with one."""
        method = self._methods[name]
        ask = self.channel.unary_unary(method.path, _bytes, method.response.FromString)
        return await ask(request, timeout=CALL_WITHIN_S)

    def stream(self, name: str, requests: Any) -> Any:
        """Begin a call with many answers."""
        method = self._methods[name]
        return self._begin(method)(requests, timeout=CALL_WITHIN_S)

    def _begin(self, method: Method) -> Any:
        if method.is_request_stream:
            return self.channel.stream_stream(method.path, _bytes, method.response.FromString)
        return self.channel.unary_stream(method.path, _bytes, method.response.FromString)


@asynccontextmanager
async def calls(at: str, service: Service = WRITE_PROXY) -> AsyncIterator[ProxyCalls]:
    """Connect to a proxy for a block."""
    async with grpc.aio.insecure_channel(at) as channel:
        yield ProxyCalls(channel, service)


def opening(stream: str, **context: Any) -> WriteStreamRequest:
    """Return the first request of a write stream."""
    request = WriteStreamRequest()
    request.open.stream = stream
    if context:
        request.open.context.MergeFrom(type(request.open.context)(**context))
    return request


def records(number: int, payloads: Iterable[bytes], **more: Any) -> WriteStreamRequest:
    """Return another one."""
    return WriteStreamRequest(
        records=WriteStreamRequest.Records(id=number, payloads=payloads, **more)
    )


__all__ = ["READ_PROXY", "ProxyCalls", "calls", "opening", "records"]
