"""Connections to proxies over gRPC: one channel for each host, a bounded number of them.

A call begins only on a channel that is connected, so a failure before that is certain to have asked
nothing. What comes behind it leaves the outcome open.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Final, TypeVar

import grpc
from google.protobuf.message import DecodeError, Message
from typing_extensions import override

from tailrace.core.runtime.config import ConfigError
from tailrace.core.runtime.tasks import Tasks
from tailrace.protocol.proxy.methods import Method
from tailrace.proxy.client.config import MESSAGE_BYTES_MAX, ClientConfig
from tailrace.proxy.client.grpc_entrance import GrpcEntrance
from tailrace.proxy.client.reactions import Trouble
from tailrace.proxy.client.transport import Call, CallFailed, Transport, encoded
from tailrace.proxy.routing.ring import Host

T = TypeVar("T")

HOSTS_MAX: Final = 1_000
"""Hosts that a client is connected to; the one that was not used for longest goes."""
CALLS_A_CONNECTION: Final = 500
"""Calls with streams of one connection; servers take 10,000 (`proxy.connection.calls.max`)."""
CONNECTIONS_MAX: Final = 16
"""Connections to one host; beyond it they share the calls, and gRPC has some wait."""

_TROUBLES: Final = {
    grpc.StatusCode.DEADLINE_EXCEEDED: Trouble.TIMED_OUT,
    grpc.StatusCode.INVALID_ARGUMENT: Trouble.REFUSED,
    grpc.StatusCode.UNAUTHENTICATED: Trouble.REFUSED,
    grpc.StatusCode.PERMISSION_DENIED: Trouble.REFUSED,
    grpc.StatusCode.RESOURCE_EXHAUSTED: Trouble.TOO_LARGE,
    grpc.StatusCode.UNIMPLEMENTED: Trouble.NOT_SERVED,
}
"""Every other status: the call broke."""

_SETTLED: Final = (
    grpc.ChannelConnectivity.READY,
    grpc.ChannelConnectivity.TRANSIENT_FAILURE,
    grpc.ChannelConnectivity.SHUTDOWN,
)


class _Connection:
    """One channel, and how many calls with streams it has."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self.channel = channel
        self.calls = 0

    def end_call(self) -> None:
        self.calls -= 1


class GrpcTransport(Transport):
    """Channels of one client. All calls come from one loop."""

    def __init__(self, config: ClientConfig) -> None:
        """Read key store and trust store, if there are any. Errors: ConfigError."""
        self._config = config
        self._entrance = GrpcEntrance(config.security)
        self._hosts: dict[Host, list[_Connection]] = {}
        self._leaving: set[_Connection] = set()
        """Those that end when their calls do."""
        self._closing = Tasks("proxy_client.channels")

    @override
    async def call(self, host: Host, method: Method, request: Message, timeout_s: float) -> Message:
        connection = self._chosen(host)
        await self._connect(host, connection)
        multicallable: Any = connection.channel.unary_unary(method.path)
        with _not_closed():
            call = multicallable(
                request.SerializeToString(), timeout=timeout_s, metadata=self._metadata()
            )
        answer = await _failing(call)
        return _decoded(method, answer)

    @override
    async def open(self, host: Host, method: Method) -> Call:
        assert method.is_response_stream, f"{method.name} has one answer"
        connection = self._chosen(host)
        connection.calls += 1  # before it waits, so that those beside it choose another
        channel = connection.channel
        try:
            await self._connect(host, connection)
            metadata = self._metadata()
            if method.is_request_stream:
                with _not_closed():
                    call: Any = channel.stream_stream(method.path)(metadata=metadata)
                return _GrpcCall(method, call, connection.end_call)
        except BaseException:
            connection.end_call()
            raise
        begin: Any = partial(channel.unary_stream(method.path), metadata=metadata)
        return _OneRequest(method, begin, connection.end_call)

    @override
    def forget(self, host: Host) -> None:
        for connection in self._hosts.pop(host, ()):
            self._close(connection)

    @override
    async def close(self) -> None:
        await self._closing.close()
        hosts, self._hosts = self._hosts, {}
        for connection in {*self._leaving, *(each for some in hosts.values() for each in some)}:
            await connection.channel.close()

    def _close(self, connection: _Connection) -> None:
        self._leaving.add(connection)
        self._closing.start(self._close_in_time(connection), "close")

    async def _close_in_time(self, connection: _Connection) -> None:
        await connection.channel.close(self._config.rpc_timeout_ms / 1000)
        self._leaving.discard(connection)

    async def _connect(self, host: Host, connection: _Connection) -> None:
        """Return once a connection is there. Errors: CallFailed (NOT_CONNECTED)."""
        channel = connection.channel
        state = channel.get_state(try_to_connect=True)
        try:
            async with asyncio.timeout(self._config.connect_timeout_ms / 1000):
                while state not in _SETTLED:
                    with _not_closed():
                        await channel.wait_for_state_change(state)
                    state = channel.get_state(try_to_connect=True)
        except TimeoutError:  # perhaps of a loop that was busy for longer than the connection took
            state = channel.get_state()
        if state is grpc.ChannelConnectivity.READY:
            return
        connections = self._hosts.get(host, [])
        if connection in connections:
            connections.remove(connection)
            self._close(connection)
            if not connections:
                del self._hosts[host]
        within = f"{self._config.connect_timeout_ms} ms (connect.timeout.ms)"
        raise CallFailed(Trouble.NOT_CONNECTED, f"no connection within {within}")

    def _chosen(self, host: Host) -> _Connection:
        """Return the connection of a host with the fewest calls, a new one if all have many."""
        if host not in self._hosts and len(self._hosts) >= HOSTS_MAX:
            self.forget(next(iter(self._hosts)))
        connections = self._hosts.pop(host, [])
        self._hosts[host] = connections  # used last
        least = min(connections, key=lambda each: each.calls, default=None)
        is_new_wanted = least is None or least.calls >= CALLS_A_CONNECTION
        if least is None or (is_new_wanted and len(connections) < CONNECTIONS_MAX):
            least = _Connection(self._channel(host))
            connections.append(least)
        return least

    def _channel(self, host: Host) -> grpc.aio.Channel:
        name = f"[{host.name}]" if ":" in host.name else host.name
        place, credentials = f"{name}:{host.port}", self._entrance.credentials
        options = [
            ("grpc.use_local_subchannel_pool", 1),  # one that is made again connects again
            ("grpc.enable_http_proxy", 0),
            ("grpc.enable_retries", 0),
            ("grpc.max_receive_message_length", MESSAGE_BYTES_MAX),
            ("grpc.max_send_message_length", MESSAGE_BYTES_MAX),
            ("grpc.keepalive_time_ms", self._config.keepalive_ms),
            ("grpc.keepalive_timeout_ms", self._config.rpc_timeout_ms),
        ]
        if credentials is None:
            return grpc.aio.insecure_channel(place, options)
        return grpc.aio.secure_channel(place, credentials, options)

    def _metadata(self) -> tuple[tuple[str, str], ...]:
        """Return what a call brings. Errors: CallFailed."""
        try:
            return self._entrance.metadata()
        except ConfigError as error:
            raise CallFailed(Trouble.REFUSED, str(error)) from error


class _GrpcCall(Call):
    """A call with streams in both directions; or in one, once its request is sent."""

    def __init__(self, method: Method, call: Any, on_end: Callable[[], None]) -> None:
        self._method = method
        self._call = call
        self._on_end: Callable[[], None] | None = on_end

    @override
    async def send(self, message: Message | bytes) -> None:
        await _failing(self._call.write(encoded(message)))

    @override
    async def done_sending(self) -> None:
        await _failing(self._call.done_writing())

    @override
    async def receive(self) -> Message | None:
        data = await _failing(self._call.read())
        if data is not grpc.aio.EOF:
            return _decoded(self._method, data)
        code = await self._call.code()
        if code is grpc.StatusCode.OK:
            return None
        raise CallFailed(_trouble(code), str(await self._call.details()))

    @override
    def cancel(self) -> None:
        if self._call is not None:
            self._call.cancel()
        on_end, self._on_end = self._on_end, None
        if on_end is not None:
            on_end()


class _OneRequest(_GrpcCall):
    """A call whose one request begins it."""

    def __init__(self, method: Method, begin: Any, on_end: Callable[[], None]) -> None:
        super().__init__(method, None, on_end)
        self._begin = begin
        self._has_begun = asyncio.Event()

    @override
    async def send(self, message: Message | bytes) -> None:
        assert self._call is None, "it takes one request"
        try:
            with _not_closed():
                self._call = self._begin(encoded(message))
        finally:
            self._has_begun.set()

    @override
    async def done_sending(self) -> None:
        """Do nothing: the request was all."""

    @override
    async def receive(self) -> Message | None:
        await self._has_begun.wait()
        if self._call is None:
            raise CallFailed(Trouble.NOT_CONNECTED, "the call has not begun")
        return await super().receive()

    @override
    def cancel(self) -> None:
        self._has_begun.set()
        super().cancel()


@contextmanager
def _not_closed() -> Iterator[None]:
    """Begin something on a channel; one that was closed since is not connected."""
    try:
        yield
    except grpc.aio.UsageError as error:
        raise CallFailed(Trouble.NOT_CONNECTED, str(error)) from error


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
