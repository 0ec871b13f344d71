"""How a client's calls get in: the settings of Kafka's clients, against a real server."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import uvloop
from google.protobuf.message import Message

from tailrace.core.access.authorization_header import basic_header
from tailrace.core.access.callers import Callers, Means
from tailrace.core.access.client.config import ClientConfig as SecurityConfig
from tailrace.core.access.oauth.claims import Bearer
from tailrace.core.access.oauth.compact import TokenRefused
from tailrace.core.runtime.clock import ManualClock
from tailrace.core.runtime.config import Assignment, ConfigError, load
from tailrace.core.security.tls_config import TlsConfig
from tailrace.protocol.proxy.common_pb2 import SUCCESS, ResponseHeader
from tailrace.protocol.proxy.methods import READ_PROXY, WRITE_PROXY
from tailrace.protocol.proxy.read_proxy_pb2 import ReadRequest, ReadResponse
from tailrace.protocol.proxy.write_proxy_pb2 import WriteRequest, WriteResponse, WriteStreamResponse
from tailrace.proxy.client.config import ClientConfig
from tailrace.proxy.client.grpc_entrance import READ_AGAIN_S, GrpcEntrance
from tailrace.proxy.client.grpc_transport import GrpcTransport
from tailrace.proxy.client.reactions import Trouble
from tailrace.proxy.client.transport import CallFailed
from tailrace.proxy.routing.ring import Host
from tailrace.proxy.service.call_access import CallAccess
from tailrace.proxy.service.config import GrpcConfig
from tailrace.proxy.service.grpc_server import GrpcServer
from tailrace.proxy.service.grpc_tls import GrpcTls
from tests.certificates import Authority

WITHIN_S = 60
OK = ResponseHeader(code=SUCCESS)
JAAS = (
    "org.apache.kafka.common.security.scram.ScramLoginModule required "
    'username="alice" password="{}";'
)
TOKEN = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;"
WRITE, READ = WRITE_PROXY.methods["write"], READ_PROXY.methods["read"]
WRITE_STREAM = WRITE_PROXY.methods["write_stream"]


def security(**given: str) -> SecurityConfig:
    named = {key.replace("__", "."): value for key, value in given.items()}
    return load(SecurityConfig, [Assignment(*each, "a test") for each in named.items()]).config


def by_password(authority: Authority, password: str = "right") -> dict[str, str]:
    return {
        "security__protocol": "SASL_SSL",
        "sasl__mechanism": "SCRAM-SHA-512",
        "sasl__jaas__config": JAAS.format(password),
        "ssl__truststore__location": str(authority.certificate),
    }


class Known:
    async def is_right(self, user: str, password: str) -> bool:
        return (user, password) == ("alice", "right")

    async def bearer(self, token: str) -> Bearer:
        if token != "good":
            raise TokenRefused("a test")
        return Bearer("bob", 1 << 62)


class Service:
    def __getattr__(self, name: str) -> Any:
        async def one(_: Message) -> Message:
            return WriteResponse(header=OK)

        return one

    async def read(self, _: Message) -> AsyncIterator[ReadResponse]:
        yield ReadResponse(header=OK)

    async def write_stream(self, _: AsyncIterator[Any]) -> AsyncIterator[Any]:
        yield WriteStreamResponse(header=OK)


@asynccontextmanager
async def served(authority: Authority, *, client_auth: Any = "none") -> AsyncIterator[Host]:
    config = TlsConfig(
        keystore_location=authority.store("server", "localhost"),
        truststore_location=authority.certificate,
        client_auth=client_auth,
    )
    tls = GrpcTls(config)
    server = GrpcServer(GrpcConfig(), tls.credentials)
    server.guard(CallAccess(Callers(Means(Known(), Known().bearer), lambda: 0), lambda: None))
    port = server.bind("127.0.0.1", 0)
    server.add(WRITE_PROXY, Service())
    server.add(READ_PROXY, Service())
    await server.start()
    try:
        yield Host("localhost", port)
    finally:
        await server.close()
        await tls.close()


async def outcome(host: Host, config: SecurityConfig) -> Trouble | None:
    """Return what becomes of a write, of a read and of a write stream: of all the same."""
    transport = GrpcTransport(ClientConfig(security=config, connect_timeout_ms=5_000))
    try:
        found = {
            await _trouble(_written(transport, host)),
            await _trouble(_received(transport, host, READ, ReadRequest(stream="s"))),
            await _trouble(_received(transport, host, WRITE_STREAM)),
        }
    finally:
        await transport.close()
    (each,) = found
    return each


async def _trouble(call: Any) -> Trouble | None:
    try:
        await call
    except CallFailed as failed:
        return failed.trouble
    return None


async def _written(transport: GrpcTransport, host: Host) -> None:
    await transport.call(host, WRITE, WriteRequest(stream="s"), WITHIN_S)


async def _received(
    transport: GrpcTransport, host: Host, method: Any, request: Message | None = None
) -> None:
    call = await transport.open(host, method)
    try:
        if request is not None:
            await call.send(request)
        assert await call.receive() is not None
    finally:
        call.cancel()


def run(story: Any) -> None:
    async def main() -> None:
        async with asyncio.timeout(WITHIN_S):
            await story()

    uvloop.run(main())


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "keys")


def test_a_user_gets_in_and_a_wrong_password_is_refused_at_once(authority: Authority) -> None:
    async def story() -> None:
        async with served(authority) as host:
            assert await outcome(host, security(**by_password(authority))) is None
            wrong = security(**by_password(authority, "wrong"))
            assert await outcome(host, wrong) is Trouble.REFUSED
            stranger = security(
                security__protocol="SSL", ssl__truststore__location=str(authority.certificate)
            )
            assert await outcome(host, stranger) is Trouble.REFUSED

    run(story)


def test_a_token_and_a_certificate_of_ones_own(authority: Authority, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("good\n")

    async def story() -> None:
        settings = {
            "security__protocol": "SASL_SSL",
            "sasl__mechanism": "OAUTHBEARER",
            "sasl__jaas__config": TOKEN,
            "sasl__oauthbearer__token__endpoint__url": f"file://{tmp_path}/token",
            "ssl__truststore__location": str(authority.certificate),
        }
        own = {"ssl__keystore__location": str(authority.store("alice"))}
        async with served(authority, client_auth="required") as host:
            assert await outcome(host, security(**settings, **own)) is None
            without = await outcome(host, security(**settings))
            assert without in (Trouble.NOT_CONNECTED, Trouble.BROKEN)

    run(story)


def test_a_server_that_is_not_trusted_gets_no_call(authority: Authority, tmp_path: Path) -> None:
    async def story() -> None:
        async with served(authority) as host:
            others = security(**by_password(Authority(tmp_path / "others")))
            transport = GrpcTransport(ClientConfig(security=others, connect_timeout_ms=300))
            assert await _trouble(_written(transport, host)) is Trouble.NOT_CONNECTED
            await transport.close()

    run(story)


def test_a_token_is_read_again_when_it_may_be_another(tmp_path: Path) -> None:
    file, clock = tmp_path / "token", ManualClock()
    file.write_text("first")
    entrance = GrpcEntrance(
        security(
            security__protocol="SASL_PLAINTEXT",
            sasl__mechanism="OAUTHBEARER",
            sasl__oauthbearer__token__endpoint__url=f"file://{file}",
        ),
        clock,
    )
    file.write_text("second")
    assert entrance.metadata() == (("authorization", "Bearer first"),)
    clock.advance_ms(round(READ_AGAIN_S * 1000))
    assert entrance.metadata() == (("authorization", "Bearer second"),)
    file.unlink()
    clock.advance_ms(round(READ_AGAIN_S * 1000))
    with pytest.raises(ConfigError, match="token"):
        entrance.metadata()


def test_a_password_is_basic_and_nothing_is_nothing() -> None:
    scram = security(
        security__protocol="SASL_PLAINTEXT",
        sasl__mechanism="SCRAM-SHA-256",
        sasl__jaas__config=JAAS.format("right"),
    )
    entrance = GrpcEntrance(scram)
    assert entrance.metadata() == (("authorization", basic_header("alice", "right")),)
    assert entrance.credentials is None
    assert GrpcEntrance(SecurityConfig()).metadata() == ()


@pytest.mark.parametrize(
    "given",
    [
        {"security__protocol": "SSL", "ssl__endpoint__identification__algorithm": ""},
        {"security__protocol": "SSL", "ssl__enabled__protocols": "TLSv1.3"},
        {
            "security__protocol": "SASL_PLAINTEXT",
            "sasl__mechanism": "SCRAM-SHA-256",
            "sasl__jaas__config": JAAS.format("x").replace(";", " tokenauth=true;"),
        },
        {
            "security__protocol": "SASL_PLAINTEXT",
            "sasl__mechanism": "SCRAM-SHA-256",
            "sasl__jaas__config": JAAS.format("x").replace("alice", "a:b"),
        },
    ],
)
def test_what_grpc_cannot_do_is_refused_by_name(given: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match=r"ssl|sasl"):
        GrpcEntrance(security(**given))
