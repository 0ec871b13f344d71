"""Who may call what over gRPC, with real calls: a row a method, changes during a call, TLS."""

import asyncio
import shutil
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
import uvloop
from google.protobuf.message import Message
from grpc_health.v1 import health_pb2

from tailrace.core.access.acls.model import Operation, ResourceType
from tailrace.core.access.authorization_header import basic_header
from tailrace.core.access.callers import Callers, Means
from tailrace.core.access.oauth.claims import Bearer
from tailrace.core.access.requester import Requester
from tailrace.core.access.sasl.mechanism import AuthenticationFailed
from tailrace.core.errors import OverCapacity, Unavailable
from tailrace.core.runtime.clock import ManualClock
from tailrace.core.security import followed_files
from tailrace.core.security.tls_config import TlsConfig
from tailrace.protocol.proxy.common_pb2 import SUCCESS, ResponseHeader
from tailrace.protocol.proxy.methods import PROXY_ADMIN, READ_PROXY, WRITE_PROXY, Method
from tailrace.protocol.proxy.proxy_admin_pb2 import ListStreamsResponse
from tailrace.protocol.proxy.read_proxy_pb2 import ReadResponse
from tailrace.protocol.proxy.write_proxy_pb2 import (
    ServerInfo,
    WriteStreamRequest,
    WriteStreamResponse,
)
from tailrace.proxy.service.call_access import NEEDS, CallAccess, host_of
from tailrace.proxy.service.config import GrpcConfig
from tailrace.proxy.service.grpc_server import GrpcServer
from tailrace.proxy.service.grpc_tls import GrpcTls
from tests.certificates import Authority, fingerprint, fingerprint_of

WITHIN_S = 60
OK = ResponseHeader(code=SUCCESS)
ALICE = basic_header("alice", "right")
STREAM = (ResourceType.TOPIC, "s")
CLUSTER = (ResourceType.CLUSTER, "kafka-cluster")
TABLE: dict[str, tuple[Any, ...] | None] = {
    "handshake": None,
    "get_owner": (Operation.DESCRIBE, *STREAM),
    "write": (Operation.WRITE, *STREAM),
    "write_bulk": (Operation.WRITE, *STREAM),
    "write_stream": (Operation.WRITE, *STREAM),
    "heartbeat": (Operation.WRITE, *STREAM),
    "truncate": (Operation.DELETE, *STREAM),
    "create": (Operation.CREATE, *STREAM),
    "delete": (Operation.DELETE, *STREAM),
    "release": (Operation.ALTER, *STREAM),
    "set_accept_new_stream": (Operation.ALTER, *CLUSTER),
    "read": (Operation.READ, *STREAM),
    "read_last": (Operation.READ, *STREAM),
    "list_segments": (Operation.DESCRIBE, *STREAM),
    "list_streams": (Operation.DESCRIBE, *CLUSTER),
    "release_to": (Operation.ALTER, *CLUSTER),
}
METHODS = {
    name: method
    for service in (WRITE_PROXY, READ_PROXY, PROXY_ADMIN)
    for name, method in service.methods.items()
}


class Passwords:
    async def is_right(self, user: str, password: str) -> bool:
        if user == "crowd":
            raise OverCapacity("too many passwords are being checked")
        return (user, password) == ("alice", "right")


class Only:
    """Allows some things to alice; what it was asked about is kept."""

    def __init__(self, *allowed: Any) -> None:
        self.allowed = set(allowed)
        self.version = 0
        self.asked = 0

    def allows(
        self, requester: Requester, operation: Operation, resource_type: ResourceType, name: str
    ) -> bool:
        self.asked += 1
        assert requester.host == "127.0.0.1"
        asked = (operation, resource_type, name)
        return requester.principal == "User:alice" and asked in self.allowed

    def allows_any(self, *_: Any) -> bool:
        raise AssertionError("no method asks it")

    def revoke(self) -> None:
        self.allowed.clear()
        self.version += 1


class Everything:
    """Answers every method."""

    def __init__(self) -> None:
        self.go_on = asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        method = METHODS[name]

        async def one(_: Message) -> Message:
            if method.response is ServerInfo:
                return ServerInfo(ownerships={"s": "here", "other": "here"})
            return method.response()

        return one

    async def read(self, _: Message) -> AsyncIterator[ReadResponse]:
        yield ReadResponse(header=OK)
        await self.go_on.wait()
        yield ReadResponse(header=OK)

    async def list_streams(self, _: Message) -> AsyncIterator[ListStreamsResponse]:
        yield ListStreamsResponse()

    async def write_stream(self, requests: AsyncIterator[Any]) -> AsyncIterator[Any]:
        async for _ in requests:
            yield WriteStreamResponse(header=OK)


class Asking:
    """Calls of one client."""

    def __init__(self, at: str, channel: grpc.aio.Channel, service: Everything) -> None:
        self.at = at
        self.channel = channel
        self.service = service

    async def status(self, name: str, authorization: str | None = ALICE) -> grpc.StatusCode:
        """Return how a call of a method for the stream `s` ends."""
        call = self.begin(METHODS[name], authorization)
        self.service.go_on.set()
        try:
            if METHODS[name].is_response_stream:
                async for _ in call:
                    pass
            else:
                await call
        except grpc.aio.AioRpcError as error:
            return error.code()
        return grpc.StatusCode.OK

    def begin(self, method: Method, authorization: str | None = ALICE) -> Any:
        metadata = None if authorization is None else (("authorization", authorization),)
        channel: Any = self.channel
        if method.is_request_stream:
            return channel.stream_stream(method.path)(_openings(), metadata=metadata)
        named = "stream" in method.request.DESCRIPTOR.fields_by_name
        data = (method.request(stream="s") if named else method.request()).SerializeToString()
        make = channel.unary_stream if method.is_response_stream else channel.unary_unary
        return make(method.path)(data, metadata=metadata)


async def _openings() -> AsyncIterator[bytes]:
    opening = WriteStreamRequest.Open(stream="s")
    yield WriteStreamRequest(open=opening).SerializeToString()


async def _same(stream: str) -> str:
    return stream


@asynccontextmanager
async def serving(
    only: Only | None,
    means: Means | None = None,
    topic_of: Any = None,
    tls: GrpcTls | None = None,
    channel_credentials: grpc.ChannelCredentials | None = None,
    clock: ManualClock | None = None,
) -> AsyncIterator[Asking]:
    callers = Callers(means or Means(Passwords()), lambda: 0)
    access = CallAccess(callers, lambda: only, topic_of or _same, clock)
    credentials = None if tls is None else tls.credentials
    server, service = GrpcServer(GrpcConfig(), credentials), Everything()
    server.guard(access)
    port = server.bind("127.0.0.1", 0)
    for each in (WRITE_PROXY, READ_PROXY, PROXY_ADMIN):
        server.add(each, service)
    await server.start()
    options = [("grpc.use_local_subchannel_pool", 1)]
    at = f"localhost:{port}" if channel_credentials else f"127.0.0.1:{port}"
    channel = (
        grpc.aio.insecure_channel(at, options)
        if channel_credentials is None
        else grpc.aio.secure_channel(at, channel_credentials, options)
    )
    try:
        async with channel:
            yield Asking(at, channel, service)
    finally:
        await server.close()


def run(story: Callable[[], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        async with asyncio.timeout(WITHIN_S):
            await story()

    uvloop.run(main())


def test_every_method_has_its_row() -> None:
    assert {method.path for method in METHODS.values()} == set(NEEDS)
    assert set(METHODS) == set(TABLE)


def test_each_method_needs_one_operation_and_no_other_does() -> None:
    async def story() -> None:
        only = Only()
        async with serving(only) as asking:
            for name, needed in TABLE.items():
                everything = {each for each in TABLE.values() if each is not None}
                only.allowed = everything - {needed}
                without = await asking.status(name)
                only.allowed = {needed}
                assert (await asking.status(name)) is grpc.StatusCode.OK, name
                denied = grpc.StatusCode.OK if needed is None else grpc.StatusCode.PERMISSION_DENIED
                assert without is denied, name

    run(story)


def test_who_does_not_say_who_it_is_gets_unauthenticated_everywhere_but_of_health() -> None:
    async def story() -> None:
        async with serving(None) as asking:
            for name in TABLE:
                assert (await asking.status(name, None)) is grpc.StatusCode.UNAUTHENTICATED, name
            for header in (basic_header("alice", "wrong"), basic_header("bob", "x"), "Bearer a"):
                assert (await asking.status("write", header)) is grpc.StatusCode.UNAUTHENTICATED
            crowded = await asking.status("write", basic_header("crowd", "x"))
            assert crowded is grpc.StatusCode.UNAVAILABLE
            health: Any = asking.channel.unary_unary("/grpc.health.v1.Health/Check")
            found = health_pb2.HealthCheckResponse.FromString(await health(b""))
            assert found.status == health_pb2.HealthCheckResponse.SERVING

    run(story)


def test_a_handshake_names_the_streams_that_may_be_described() -> None:
    async def story() -> None:
        async with serving(Only((Operation.DESCRIBE, *STREAM))) as asking:
            found = ServerInfo.FromString(await asking.begin(METHODS["handshake"]))
            assert dict(found.ownerships) == {"s": "here"}

    run(story)


def test_what_is_taken_away_ends_a_read_at_its_next_message() -> None:
    async def story() -> None:
        only = Only((Operation.READ, *STREAM))
        async with serving(only) as asking:
            call = asking.begin(METHODS["read"])
            assert ReadResponse.FromString(await call.read()).header == OK
            asked = only.asked
            only.revoke()
            asking.service.go_on.set()
            with pytest.raises(grpc.aio.AioRpcError) as ended:
                await call.read()
            assert ended.value.code() is grpc.StatusCode.PERMISSION_DENIED
            assert (asked, only.asked) == (1, 2)

    run(story)


def test_a_token_that_expires_ends_a_read_at_its_next_message() -> None:
    async def story() -> None:
        clock = ManualClock()

        async def bearer(_: str) -> Bearer:
            return Bearer("alice", clock.now_ms() + 1_000)

        means = Means(tokens=bearer)
        async with serving(None, means, clock=clock) as asking:
            call = asking.begin(METHODS["read"], "Bearer a")
            assert ReadResponse.FromString(await call.read()).header == OK
            clock.advance_ms(1_000)
            asking.service.go_on.set()
            with pytest.raises(grpc.aio.AioRpcError) as ended:
                await call.read()
            assert ended.value.code() is grpc.StatusCode.UNAUTHENTICATED
            assert (await asking.status("write", "Bearer b")) is grpc.StatusCode.OK

    run(story)


def test_what_is_taken_away_ends_a_write_stream_at_its_next_message() -> None:
    async def story() -> None:
        only = Only((Operation.WRITE, *STREAM))
        async with serving(only) as asking:
            method: Any = asking.channel.stream_stream(METHODS["write_stream"].path)
            call = method(metadata=(("authorization", ALICE),))
            opening = WriteStreamRequest.Open(stream="s")
            await call.write(WriteStreamRequest(open=opening).SerializeToString())
            await call.read()
            only.revoke()
            records = WriteStreamRequest.Records(id=1, payloads=[b"x"])
            await call.write(WriteStreamRequest(records=records).SerializeToString())
            with pytest.raises(grpc.aio.AioRpcError) as ended:
                await call.read()
            assert ended.value.code() is grpc.StatusCode.PERMISSION_DENIED

    run(story)


def test_a_stream_of_a_topic_is_authorized_by_the_topic() -> None:
    async def topic_of(stream: str) -> str:
        if stream != "s":
            raise Unavailable("the topic is being made")
        return "the topic"

    async def story() -> None:
        only = Only((Operation.READ, ResourceType.TOPIC, "the topic"))
        async with serving(only, topic_of=topic_of) as asking:
            assert (await asking.status("read_last")) is grpc.StatusCode.OK
            assert (await asking.status("handshake")) is grpc.StatusCode.UNAVAILABLE

    run(story)


def _common_name(certificate: bytes) -> str:
    if b"alice" not in certificate:
        raise AuthenticationFailed("the certificate is not that of a user")
    return "alice"


def test_certificates_of_clients_and_of_the_server_which_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(followed_files, "CHECK_S", 0.01)
    authority = Authority(tmp_path / "keys")
    store = shutil.copy(authority.store("first", "localhost"), tmp_path / "server.pem")
    config = TlsConfig(
        keystore_location=Path(store),
        truststore_location=authority.certificate,
        client_auth="required",
    )

    def showing(name: str) -> grpc.ChannelCredentials:
        pem = authority.store(name).read_bytes()
        return grpc.ssl_channel_credentials(authority.certificate.read_bytes(), pem, pem)

    async def story() -> None:
        tls = GrpcTls(config)
        by_certificate = Means(user_of_certificate=_common_name)
        try:
            for name, status in (
                ("alice", grpc.StatusCode.OK),
                ("bob", grpc.StatusCode.UNAUTHENTICATED),
            ):
                async with serving(None, by_certificate, None, tls, showing(name)) as asking:
                    assert (await asking.status("write", None)) is status
            second = authority.store("second", "localhost")
            shutil.copy(second, store)
            async with serving(None, by_certificate, None, tls, showing("alice")) as asking:
                while await asyncio.to_thread(shown, asking.at, authority) != fingerprint_of(
                    second
                ):
                    assert (await asking.status("write", None)) is grpc.StatusCode.OK
                assert (await asking.status("write", None)) is grpc.StatusCode.OK
        finally:
            await tls.close()

    run(story)


def shown(at: str, authority: Authority) -> str:
    """Return what tells the certificate that a server shows from others."""
    host, _, port = at.rpartition(":")
    context = ssl.create_default_context(cafile=str(authority.certificate))
    context.set_alpn_protocols(["h2"])
    with (
        socket.create_connection((host, int(port)), timeout=WITHIN_S) as plain,
        context.wrap_socket(plain, server_hostname=host) as client,
    ):
        return fingerprint(client.getpeercert(binary_form=True) or b"")


@pytest.mark.parametrize(
    ("peer", "host"),
    [
        ("ipv4:10.0.0.1:4711", "10.0.0.1"),
        ("ipv6:%5B::1%5D:7", "::1"),
        ("ipv6:[fe80::1%25eth0]:7", "fe80::1%eth0"),
        ("ipv6:%5B::ffff:10.0.0.1%5D:7", "10.0.0.1"),
        ("ipv6:%5B::FFFF:10.0.0.1%5D:7", "10.0.0.1"),
        ("ipv6:%5B::ffff:a00:1%5D:7", "::ffff:a00:1"),
        ("unix:/a/b", "unix:/a/b"),
    ],
)
def test_the_address_of_a_peer(peer: str, host: str) -> None:
    assert host_of(peer) == host
