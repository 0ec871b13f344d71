"""Connections to proxies over gRPC: one channel for each host, a bounded number of them.

A call begins only on a channel that is connected, so a failure before that is certain to have asked
nothing. What comes behind it leaves the outcome open.
"""

import asyncio
from collections.abc import Awaitable
from typing import Any, Final, TypeVar

import grpc
from google.protobuf.message import DecodeError, Message
from typing_extensions import override

from tailrace.core.runtime.tasks import Tasks
from tailrace.protocol.proxy.methods import Method
from tailrace.proxy.client.config import MESSAGE_BYTES_MAX, ClientConfig
from tailrace.proxy.client.reactions import Trouble
from tailrace.proxy.client.transport import Call, CallFailed, Transport
from tailrace.proxy.routing.ring import Host

T = TypeVar("T")

CHANNELS_MAX: Final = 1_000
"""Hosts that a client is connected to; the one that was not used for longest goes."""

_TROUBLES: Final = {
    grpc.StatusCode.DEADLINE_EXCEEDED: Trouble.TIMED_OUT,
    grpc.StatusCode.INVALID_ARGUMENT: Trouble.REFUSED,
    grpc.StatusCode.RESOURCE_EXHAUSTED: Trouble.TOO_LARGE,
    grpc.StatusCode.UNIMPLEMENTED: Trouble.NOT_SERVED,
}
"""Every other status: the call broke."""

_UNCONNECTED: Final = (
    grpc.ChannelConnectivity.TRANSIENT_FAILURE,
    grpc.ChannelConnectivity.SHUTDOWN,
)


class GrpcTransport(Transport):
    """Channels of one client. All calls come from one loop."""

    def __init__(self, config: ClientConfig) -> None:
        self._config = config
        self._channels: dict[Host, grpc.aio.Channel] = {}
        self._closing = Tasks("proxy_client.channels")

    @override
    async def call(self, host: Host, method: Method, request: Message, timeout_s: float) -> Message:
        channel = await self._connected(host)
        multicallable: Any = channel.unary_unary(method.path)
        answer = await _failing(multicallable(request.SerializeToString(), timeout=timeout_s))
        return _decoded(method, answer)

    @override
    async def open(self, host: Host, method: Method) -> Call:
        channel = await self._connected(host)
        assert method.is_response_stream, f"{method.name} has one answer"
        if method.is_request_stream:
            return _GrpcCall(method, channel.stream_stream(method.path)())
        return _OneRequest(method, channel.unary_stream(method.path))

    @override
    def forget(self, host: Host) -> None:
        channel = self._channels.pop(host, None)
        if channel is not None:
            self._closing.start(channel.close(self._config.rpc_timeout_ms / 1000), "close")

    @override
    async def close(self) -> None:
        await self._closing.close()
        channels, self._channels = list(self._channels.values()), {}
        for channel in channels:
            await channel.close()

    async def _connected(self, host: Host) -> grpc.aio.Channel:
        """Return a channel to a host once it is connected. Errors: CallFailed (NOT_CONNECTED)."""
        channel = self._channels.pop(host, None) or self._channel(host)
        self._channels[host] = channel  # used last
        state = channel.get_state(try_to_connect=True)
        if state is grpc.ChannelConnectivity.READY:
            return channel
        try:
            async with asyncio.timeout(self._config.connect_timeout_ms / 1000):
                while state is not grpc.ChannelConnectivity.READY:
                    if state in _UNCONNECTED:
                        break
                    await channel.wait_for_state_change(state)
                    state = channel.get_state(try_to_connect=True)
                else:
                    return channel
        except TimeoutError:
            pass
        if self._channels.get(host) is channel:
            self.forget(host)
        raise CallFailed(Trouble.NOT_CONNECTED, f"no connection within {self._within}")

    @property
    def _within(self) -> str:
        return f"{self._config.connect_timeout_ms} ms (connect.timeout.ms)"

    def _channel(self, host: Host) -> grpc.aio.Channel:
        if len(self._channels) >= CHANNELS_MAX:
            self.forget(next(iter(self._channels)))
        name = f"[{host.name}]" if ":" in host.name else host.name
        keepalive_ms = self._config.keepalive_ms
        return grpc.aio.insecure_channel(
            f"{name}:{host.port}",
            options=[
                (
                    "grpc.use_local_subchannel_pool",
                    1,
                ),  # a channel that is made again connects again
                ("grpc.enable_http_proxy", 0),
                ("grpc.enable_retries", 0),
                ("grpc.max_receive_message_length", MESSAGE_BYTES_MAX),
                ("grpc.max_send_message_length", MESSAGE_BYTES_MAX),
                ("grpc.keepalive_time_ms", keepalive_ms),
                ("grpc.keepalive_timeout_ms", self._config.rpc_timeout_ms),
            ],
        )


class _GrpcCall(Call):
    """A call with streams in both directions; or in one, once its request is sent."""

    def __init__(self, method: Method, call: Any) -> None:
        self._method = method
        self._call = call

    @override
    async def send(self, message: Message) -> None:
        await _failing(self._call.write(message.SerializeToString()))

    @override
    async def done_sending(self) -> None:
        await _failing(self._call.done_writing())

    @override
    async def receive(self) -> Message | None:
        data = await _failing(self._call.read())
        if data is grpc.aio.EOF:
            code = await self._call.code()
            if code is grpc.StatusCode.OK:
                return None
            raise CallFailed(_trouble(code), str(await self._call.details()))
        return _decoded(self._method, data)

    @override
    def cancel(self) -> None:
        self._call.cancel()


class _OneRequest(_GrpcCall):
    """A call whose one request begins it."""

    def __init__(self, method: Method, begin: Any) -> None:
        super().__init__(method, None)
        self._begin = begin

    @override
    async def send(self, message: Message) -> None:
        assert self._call is None, "it takes one request"
        self._call = self._begin(message.SerializeToString())

    @override
    async def done_sending(self) -> None:
        """Do nothing: the request was all."""

    @override
    def cancel(self) -> None:
        if self._call is not None:
            self._call.cancel()


def _trouble(code: grpc.StatusCode) -> Trouble:
    return _TROUBLES.get(code, Trouble.BROKEN)


def _decoded(method: Method, data: bytes) -> Message:
    try:
        return method.response.FromString(data)
    except DecodeError as error:
        raise CallFailed(Trouble.BROKEN, f"the answer does not decode: {error}") from error


async def _failing(work: Awaitable[T]) -> T:
    """Wait for gRPC; a call that ends without an answer is a CallFailed.

    gRPC raises CancelledError for a call whose channel closes: that is no cancel of the caller.
    """
    try:
        return await work
    except grpc.aio.AioRpcError as error:
        raise CallFailed(_trouble(error.code()), str(error.details())) from error
    except grpc.aio.UsageError as error:
        raise CallFailed(Trouble.BROKEN, str(error)) from error
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        raise CallFailed(Trouble.BROKEN, "the connection was closed") from error
    except asyncio.InvalidStateError as error:
        raise CallFailed(Trouble.BROKEN, "the call is over") from error
