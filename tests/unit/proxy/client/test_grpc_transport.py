"""Calls over real connections: how each end is told, and how many connections a host gets."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import grpc
import pytest

from tailrace.protocol.proxy.common_pb2 import SUCCESS, ResponseHeader
from tailrace.protocol.proxy.methods import READ_PROXY, WRITE_PROXY
from tailrace.protocol.proxy.read_proxy_pb2 import ReadLastRequest, ReadRequest
from tailrace.protocol.proxy.write_proxy_pb2 import (
    WriteRequest,
    WriteResponse,
    WriteStreamRequest,
    WriteStreamResponse,
)
from tailrace.proxy.client import grpc_transport
from tailrace.proxy.client.config import ClientConfig
from tailrace.proxy.client.grpc_transport import GrpcTransport
from tailrace.proxy.client.reactions import Trouble
from tailrace.proxy.client.transport import CallFailed
from tailrace.proxy.routing.ring import Host
from tailrace.proxy.service.config import GrpcConfig
from tailrace.proxy.service.grpc_server import GrpcServer
from tailrace.proxy.service.invalid import InvalidRequest
from tests.ports import free_port

WITHIN_S = 60
OK = ResponseHeader(code=SUCCESS)
READY = grpc.ChannelConnectivity.READY
WRITE, WRITE_STREAM = WRITE_PROXY.methods["write"], WRITE_PROXY.methods["write_stream"]


class Service:
    """Answers by the stream's name."""

    async def write(self, request: WriteRequest) -> WriteResponse:
        if request.stream == "invalid":
            raise InvalidRequest("the cause")
        if request.stream == "fails":
            raise ZeroDivisionError
        if request.stream == "waits":
            await asyncio.Event().wait()
        return WriteResponse(header=OK)

    async def write_stream(self, requests: AsyncIterator[Any]) -> AsyncIterator[Any]:
        async for request in requests:
            if request.open.stream == "fails":
                raise ZeroDivisionError
            yield WriteStreamResponse(header=OK, id=request.records.id)

    def __getattr__(self, name: str) -> Any:
        if name not in WRITE_PROXY.methods:
            raise AttributeError(name)
        return self.write


Story = Callable[[GrpcTransport, Host, GrpcServer], Coroutine[Any, Any, None]]


def run(story: Story, connect_timeout_ms: int = 30_000) -> None:
    @asynccontextmanager
    async def transport() -> AsyncIterator[GrpcTransport]:
        made = GrpcTransport(ClientConfig(connect_timeout_ms=connect_timeout_ms))
        try:
            yield made
        finally:
            await made.close()

    async def main() -> None:
        server = GrpcServer(GrpcConfig(grace_ms=0, message_bytes_max=10_000))
        port = server.bind("127.0.0.1", 0)
        server.add(WRITE_PROXY, Service())
        await server.start()
        try:
            async with asyncio.timeout(WITHIN_S), transport() as made:
                await story(made, Host("127.0.0.1", port), server)
        finally:
            await server.close()

    asyncio.run(main())


async def trouble(call: Coroutine[Any, Any, Any]) -> Trouble:
    with pytest.raises(CallFailed) as failed:
        await call
    return failed.value.trouble


def test_each_end_of_a_call_is_told_apart() -> None:
    async def story(transport: GrpcTransport, host: Host, server: GrpcServer) -> None:
        def write(stream: str, payload: bytes = b"", timeout_s: float = 30) -> Any:
            request = WriteRequest(stream=stream, payload=payload)
            return transport.call(host, WRITE, request, timeout_s)

        assert (await write("s")).header.code == SUCCESS
        assert await trouble(write("invalid")) is Trouble.REFUSED
        assert await trouble(write("fails")) is Trouble.BROKEN
        assert await trouble(write("waits", timeout_s=0.05)) is Trouble.TIMED_OUT
        assert await trouble(write("s", bytes(20_000))) is Trouble.TOO_LARGE
        last = READ_PROXY.methods["read_last"]
        asked = transport.call(host, last, ReadLastRequest(stream="s"), 30)
        assert await trouble(asked) is Trouble.NOT_SERVED
        running = asyncio.create_task(write("waits"))
        await write("s")  # behind it on the same connection
        await server.close()
        assert await trouble(_result(running)) is Trouble.BROKEN
        # gRPC learns from its own threads that the connection is gone; until then a call breaks.
        while (ended := await trouble(write("s"))) is Trouble.BROKEN:
            pass
        assert ended is Trouble.NOT_CONNECTED

    run(story)


async def _result(task: "asyncio.Task[Any]") -> Any:
    return await task


def test_streams_are_sent_received_and_ended() -> None:
    async def story(transport: GrpcTransport, host: Host, _server: GrpcServer) -> None:
        call = await transport.open(host, WRITE_STREAM)
        await call.send(WriteStreamRequest(open=WriteStreamRequest.Open(stream="s")))
        for number in range(1, 4):
            await call.send(WriteStreamRequest(records=WriteStreamRequest.Records(id=number)))
        answers: list[Any] = [await call.receive() for _ in range(4)]
        assert [each.id for each in answers] == [0, 1, 2, 3]
        await call.done_sending()
        assert await call.receive() is None
        call.cancel()
        call.cancel()
        broken = await transport.open(host, WRITE_STREAM)
        await broken.send(WriteStreamRequest(open=WriteStreamRequest.Open(stream="fails")))
        assert await trouble(broken.receive()) is Trouble.BROKEN
        assert await trouble(broken.receive()) is Trouble.BROKEN
        broken.cancel()
        reading = await transport.open(host, READ_PROXY.methods["read"])
        await reading.send(ReadRequest(stream="s"))
        await reading.done_sending()
        assert await trouble(reading.receive()) is Trouble.NOT_SERVED
        reading.cancel()
        (connection,) = transport._hosts[host]
        assert connection.calls == 0

    run(story)


def test_a_host_with_many_calls_gets_more_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grpc_transport, "CALLS_A_CONNECTION", 3)
    monkeypatch.setattr(grpc_transport, "CONNECTIONS_MAX", 2)

    async def story(transport: GrpcTransport, host: Host, _server: GrpcServer) -> None:
        calls = await asyncio.gather(*[transport.open(host, WRITE_STREAM) for _ in range(10)])
        assert [each.calls for each in transport._hosts[host]] == [5, 5]
        for call in calls:
            call.cancel()
        assert [each.calls for each in transport._hosts[host]] == [0, 0]

    run(story)


def test_the_host_that_was_not_used_for_longest_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grpc_transport, "HOSTS_MAX", 1)

    async def story(transport: GrpcTransport, host: Host, _server: GrpcServer) -> None:
        await transport.call(host, WRITE, WriteRequest(stream="s"), 30)
        dead = Host("127.0.0.1", free_port())
        assert await trouble(transport.open(dead, WRITE_STREAM)) is Trouble.NOT_CONNECTED
        assert not transport._hosts
        await transport.call(host, WRITE, WriteRequest(stream="s"), 30)
        assert list(transport._hosts) == [host]

    run(story)


def test_a_host_that_accepts_and_says_nothing_is_not_connected() -> None:
    async def story(transport: GrpcTransport, _host: Host, _server: GrpcServer) -> None:
        with socket.create_server(("127.0.0.1", 0)) as silent:
            host = Host("127.0.0.1", silent.getsockname()[1])
            call = transport.call(host, WRITE, WriteRequest(stream="s"), 30)
            assert await trouble(call) is Trouble.NOT_CONNECTED

    async def main() -> None:
        transport = GrpcTransport(ClientConfig(connect_timeout_ms=100))
        async with asyncio.timeout(WITHIN_S):
            await story(transport, Host("", 1), GrpcServer(GrpcConfig()))
        await transport.close()

    asyncio.run(main())


def test_a_connection_that_was_made_while_the_loop_was_busy_is_one() -> None:
    """Its time is over when the loop comes to it; its host would be away for minutes."""

    async def story(transport: GrpcTransport, host: Host, _server: GrpcServer) -> None:
        call = asyncio.create_task(
            _result_of(transport.call(host, WRITE, WriteRequest(stream="s"), 30))
        )
        await asyncio.sleep(0)  # it waits for the connection now
        (connection,) = transport._hosts[host]
        loop = asyncio.get_running_loop()
        busy_until_s = loop.time() + 0.01
        while connection.channel.get_state() is not READY or loop.time() < busy_until_s:
            assert not call.done()
        assert (await call).header.code == SUCCESS

    run(story, connect_timeout_ms=1)


def test_a_connection_that_is_dropped_meanwhile_is_not_connected() -> None:
    async def story(transport: GrpcTransport, host: Host, _server: GrpcServer) -> None:
        with socket.create_server(("127.0.0.1", 0)) as silent:
            at = Host("127.0.0.1", silent.getsockname()[1])
            waiting = asyncio.create_task(_result_of(transport.open(at, WRITE_STREAM)))
            await asyncio.sleep(0)  # it waits for the connection now
            assert at in transport._hosts
            transport.forget(at)
            assert await trouble(_result(waiting)) is Trouble.NOT_CONNECTED
        reading = await transport.open(host, READ_PROXY.methods["read"])
        await transport.close()
        assert await trouble(reading.send(ReadRequest(stream="s"))) is Trouble.NOT_CONNECTED
        assert await trouble(reading.receive()) is Trouble.NOT_CONNECTED
        reading.cancel()

    run(story)


def test_a_cancelled_caller_is_cancelled() -> None:
    async def story(transport: GrpcTransport, host: Host, _server: GrpcServer) -> None:
        waiting = asyncio.create_task(
            _result_of(transport.call(host, WRITE, WriteRequest(stream="waits"), 30))
        )
        await transport.call(host, WRITE, WriteRequest(stream="s"), 30)
        waiting.cancel()
        await asyncio.wait([waiting])
        assert waiting.cancelled()

    run(story)


async def _result_of(call: Coroutine[Any, Any, Any]) -> Any:
    return await call
