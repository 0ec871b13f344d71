"""The gRPC server over real sockets: what ends a call, limits, health, reflection, the stop."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import grpc
import pytest
import uvloop
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection_pb2

from tailrace.protocol.proxy.common_pb2 import SUCCESS, ResponseHeader
from tailrace.protocol.proxy.methods import READ_PROXY, WRITE_PROXY
from tailrace.protocol.proxy.read_proxy_pb2 import ReadRequest, ReadResponse
from tailrace.protocol.proxy.write_proxy_pb2 import (
    WriteRequest,
    WriteResponse,
    WriteStreamResponse,
)
from tailrace.proxy.service.config import GrpcConfig
from tailrace.proxy.service.grpc_server import GrpcServer
from tailrace.proxy.service.invalid import InvalidRequest
from tests.proxy_client import ProxyCalls, calls, opening

WITHIN_S = 60
OK = ResponseHeader(code=SUCCESS)


class Service:
    """Answers writes as the stream's name says; a write stream with each opening's name."""

    def __init__(self) -> None:
        self.waiting = self.ended = self.most = 0
        self.go_on = asyncio.Event()

    async def write(self, request: WriteRequest) -> WriteResponse:
        if request.stream == "fails":
            raise ZeroDivisionError("a secret")
        if request.stream == "invalid":
            raise InvalidRequest("the cause")
        if request.stream == "waits":
            self.waiting += 1
            self.most = max(self.most, self.waiting)
            try:
                await self.go_on.wait()
            finally:
                self.waiting -= 1
                self.ended += 1
        return WriteResponse(header=OK)

    async def write_stream(self, requests: AsyncIterator[Any]) -> AsyncIterator[Any]:
        number = 0
        try:
            async for request in requests:
                number += 1
                if request.open.stream == "fails":
                    raise ZeroDivisionError("a secret")
                answer = WriteStreamResponse(id=number, header=OK)
                yield answer if number % 2 else answer.SerializeToString()
        finally:
            self.ended += 1

    def __getattr__(self, name: str) -> Any:
        if name not in WRITE_PROXY.methods:
            raise AttributeError(name)
        return self.write


class Reads:
    async def read(self, request: ReadRequest) -> AsyncIterator[ReadResponse]:
        for number in range(request.records_max):
            yield ReadResponse(header=OK, at_tail=bool(number % 2))
        if request.tail:
            raise InvalidRequest("it has a tail")

    read_last = list_segments = read


@asynccontextmanager
async def served(
    service: Any = None, **config: Any
) -> AsyncIterator[tuple[GrpcServer, ProxyCalls, str]]:
    server = GrpcServer(GrpcConfig(**config))
    at = f"127.0.0.1:{server.bind('127.0.0.1', 0)}"
    server.add(WRITE_PROXY, service or Service())
    server.add(READ_PROXY, Reads())
    await server.start()
    try:
        async with calls(at) as ask:
            yield server, ask, at
    finally:
        await server.close()


def run(story: Callable[[], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        async with asyncio.timeout(WITHIN_S):
            await story()

    uvloop.run(main())


async def ended_by(call: Any) -> tuple[grpc.StatusCode, str]:
    with pytest.raises(grpc.aio.AioRpcError) as failed:
        await call
    return failed.value.code(), failed.value.details() or ""


async def until(holds: Callable[[], bool]) -> None:
    """Let the loop work until something holds; the story's time bounds it."""
    while True:
        if holds():
            return
        await asyncio.sleep(0.001)


def test_messages_and_bytes_are_answers(caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        async with served() as (_, ask, at):
            assert (await ask("write", WriteRequest(stream="s"))).header == OK
            requests = [opening("s")] * 4
            answers = [each.id async for each in ask.stream("write_stream", requests)]
            assert answers == [1, 2, 3, 4]
            async with calls(at, READ_PROXY) as reads:
                found = [each async for each in reads.stream("read", ReadRequest(records_max=3))]
                assert [each.at_tail for each in found] == [False, True, False]

    run(story)
    assert not caplog.records


@pytest.mark.parametrize("data", [b"\xff", b"\x0a\xff", b"\x0a\x01\xff", b"\x0a\x05abc", b"\x0b"])
def test_bytes_that_do_not_decode_are_invalid(data: bytes) -> None:
    async def story() -> None:
        async with served() as (_, ask, at):
            code, details = await ended_by(ask("write", data))
            assert code is grpc.StatusCode.INVALID_ARGUMENT
            assert "WriteRequest does not decode" in details
            stream = ask.stream("write_stream", [opening("s"), data])
            assert (await anext(aiter(stream))).id == 1
            assert (await ended_by(anext(aiter(stream))))[0] is grpc.StatusCode.INVALID_ARGUMENT
            async with calls(at, READ_PROXY) as reads:
                code, _ = await ended_by(anext(aiter(reads.stream("read", data))))
                assert code is grpc.StatusCode.INVALID_ARGUMENT

    run(story)


def test_what_a_service_refuses_and_where_it_fails(caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        invalid, internal = grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.INTERNAL
        text = "the proxy failed; its log says why"
        async with served() as (_, ask, at):
            refused = await ended_by(ask("write", WriteRequest(stream="invalid")))
            assert refused == (invalid, "the cause")
            async with calls(at, READ_PROXY) as reads:
                stream = aiter(reads.stream("read", ReadRequest(records_max=1, tail=True)))
                assert (await anext(stream)).header == OK
                assert await ended_by(anext(stream)) == (invalid, "it has a tail")
            assert not caplog.records
            assert await ended_by(ask("write", WriteRequest(stream="fails"))) == (internal, text)
            stream = aiter(ask.stream("write_stream", [opening("fails")]))
            assert await ended_by(anext(stream)) == (internal, text)
        assert caplog.text.count("ZeroDivisionError: a secret") == 2

    with caplog.at_level(logging.ERROR):
        run(story)


def test_what_is_too_large_is_refused() -> None:
    async def story() -> None:
        exhausted = grpc.StatusCode.RESOURCE_EXHAUSTED
        async with served(message_bytes_max=2_000, metadata_bytes_max=2_000) as (_, ask, _at):
            assert (await ask("write", WriteRequest(stream="s", payload=b"x" * 1_900))).header == OK
            large = WriteRequest(stream="s", payload=b"x" * 2_000)
            assert (await ended_by(ask("write", large)))[0] is exhausted
            stream = aiter(ask.stream("write_stream", [opening("s"), large.SerializeToString()]))
            assert (await anext(stream)).id == 1
            assert (await ended_by(anext(stream)))[0] is exhausted
            method = WRITE_PROXY.methods["write"]
            write = ask.channel.unary_unary(method.path)
            assert (await ended_by(write(b"", metadata=[("k", "v" * 3_000)])))[0] is exhausted
            assert (await ask("write", WriteRequest(stream="s"))).header == OK

    run(story)


def test_calls_at_once_are_bounded_for_all_and_for_a_connection() -> None:
    async def story() -> None:
        service = Service()
        wait = WriteRequest(stream="waits")
        async with served(service, calls_max=3, connection_calls_max=2) as (_, ask, at):
            mine = [asyncio.ensure_future(ask("write", wait)) for _ in range(4)]
            await until(lambda: service.waiting == 2)
            options = [("grpc.use_local_subchannel_pool", 1)]
            async with grpc.aio.insecure_channel(at, options=options) as channel:
                other = ProxyCalls(channel)
                one = asyncio.ensure_future(other("write", wait))
                await until(lambda: service.waiting == 3)
                code, _ = await ended_by(other("write", WriteRequest(stream="s")))
                assert code is grpc.StatusCode.RESOURCE_EXHAUSTED
                service.go_on.set()
                assert (await one).header == OK
            done = await asyncio.gather(*mine, return_exceptions=True)
            refused = [each for each in done if isinstance(each, grpc.aio.AioRpcError)]
            assert len(refused) <= 2, "two had begun; a client waits with the others, mostly"
            assert {each.code() for each in refused} <= {grpc.StatusCode.UNAVAILABLE}
            assert service.most == 3

    run(story)


def test_calls_that_come_at_once_are_all_served() -> None:
    """More than gRPC lets wait until they are taken, by its default."""

    async def story() -> None:
        async with served() as (_, ask, _):
            asking = [ask("write", WriteRequest(stream="s")) for _ in range(3_500)]
            answers = await asyncio.gather(*asking)
            assert all(each.header == OK for each in answers)

    run(story)


def test_a_call_that_its_client_cancels_ends_here() -> None:
    async def story() -> None:
        service = Service()
        async with served(service) as (_, ask, _at):
            call = asyncio.ensure_future(ask("write", WriteRequest(stream="waits")))
            await until(lambda: service.waiting == 1)
            call.cancel()
            await until(lambda: service.ended == 1)
            stream = ask.stream("write_stream", None)
            await stream.write(opening("s"))
            assert (await stream.read()).id == 1
            stream.cancel()
            await until(lambda: service.ended == 2)

    run(story)


def test_health_is_told_of_all_and_of_each_service() -> None:
    async def story() -> None:
        serving, not_serving = 1, 2
        async with served() as (server, ask, _):
            check = ask.channel.unary_unary(
                "/grpc.health.v1.Health/Check",
                health_pb2.HealthCheckRequest.SerializeToString,
                health_pb2.HealthCheckResponse.FromString,
            )
            watch = ask.channel.unary_stream(
                "/grpc.health.v1.Health/Watch",
                health_pb2.HealthCheckRequest.SerializeToString,
                health_pb2.HealthCheckResponse.FromString,
            )
            names = ["", WRITE_PROXY.name, READ_PROXY.name]
            asked = [health_pb2.HealthCheckRequest(service=name) for name in names]
            assert [(await check(each)).status for each in asked] == [serving] * 3
            unknown = health_pb2.HealthCheckRequest(service="x")
            assert (await ended_by(check(unknown)))[0] is grpc.StatusCode.NOT_FOUND
            watching = aiter(watch(asked[1]))
            assert (await anext(watching)).status == serving
            await server.stop_serving()
            assert (await anext(watching)).status == not_serving
            assert [(await check(each)).status for each in asked] == [not_serving] * 3
            assert (await ask("write", WriteRequest(stream="s"))).header == OK

    run(story)


def test_reflection_describes_the_services() -> None:
    async def story() -> None:
        async with served() as (_, ask, _at):
            info = ask.channel.stream_stream(
                "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
                reflection_pb2.ServerReflectionRequest.SerializeToString,
                reflection_pb2.ServerReflectionResponse.FromString,
            )
            requests = [
                reflection_pb2.ServerReflectionRequest(list_services=""),
                reflection_pb2.ServerReflectionRequest(file_containing_symbol=WRITE_PROXY.name),
            ]
            listed, described = [each async for each in info(requests)]
            names = {each.name for each in listed.list_services_response.service}
            assert names >= {WRITE_PROXY.name, READ_PROXY.name, "grpc.health.v1.Health"}
            files = b"".join(described.file_descriptor_response.file_descriptor_proto)
            assert b"WriteProxy" in files
            assert b"ResponseHeader" in files, "with what the file imports"

    run(story)


def test_a_stop_lets_calls_end_and_cancels_those_that_do_not() -> None:
    async def story() -> None:
        for grace_ms, ends in ((30_000, True), (0, False)):
            service = Service()
            async with served(service, grace_ms=grace_ms) as (server, ask, _):
                call = asyncio.ensure_future(ask("write", WriteRequest(stream="waits")))
                await until(lambda at=service: at.waiting == 1)
                stopping = asyncio.ensure_future(server.close())
                if ends:
                    await asyncio.sleep(0)
                    service.go_on.set()
                    assert (await call).header == OK
                else:
                    code, _details = await ended_by(call)
                    assert code in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED)
                await stopping
                await until(lambda at=service: at.ended == 1)
                code, _details = await ended_by(ask("write", WriteRequest(stream="s")))
                assert code is grpc.StatusCode.UNAVAILABLE

    run(story)


def test_an_address_that_is_taken_or_elsewhere_is_refused() -> None:
    async def story() -> None:
        async with served() as (_, _ask, at):
            port = int(at.rpartition(":")[2])
            for host, taken, reason in (
                ("127.0.0.1", port, "already in use"),
                ("192.0.2.1", 0, "annot assign requested address"),
            ):
                other = GrpcServer(GrpcConfig())
                with pytest.raises(OSError, match=reason):
                    other.bind(host, taken)
                await other.close()

    run(story)


def test_all_addresses_are_listened_on() -> None:
    async def story() -> None:
        for host in ("", "0.0.0.0"):
            server = GrpcServer(GrpcConfig())
            port = server.bind(host, 0)
            server.add(WRITE_PROXY, Service())
            await server.start()
            async with calls(f"127.0.0.1:{port}") as ask:
                assert (await ask("write", WriteRequest(stream="s"))).header == OK
            await server.close()

    run(story)


def test_a_service_that_lacks_a_method_is_refused() -> None:
    async def story() -> None:
        server = GrpcServer(GrpcConfig())
        with pytest.raises(AttributeError, match="has no attribute"):
            server.add(READ_PROXY, object())
        await server.close()

    run(story)


def test_a_method_that_is_not_there_is_not_implemented() -> None:
    async def story() -> None:
        async with served() as (_, ask, _at):
            unknown = ask.channel.unary_unary(f"/{WRITE_PROXY.name}/Unknown")
            assert (await ended_by(unknown(b"")))[0] is grpc.StatusCode.UNIMPLEMENTED

    run(story)
