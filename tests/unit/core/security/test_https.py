"""HTTP over TLS: certificates of both sides, and connections that send nothing."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509 import load_pem_x509_certificates

from tailrace.core.runtime import http
from tailrace.core.runtime.config import ConfigError, Secret
from tailrace.core.runtime.http import HttpHead, HttpReply, HttpServer
from tailrace.core.security import https
from tailrace.core.security.http_port import HttpTlsConfig, http_server
from tailrace.core.security.https import HttpsServer
from tailrace.core.security.tls_config import TlsConfig
from tests.certificates import Authority

WITHIN_S = 10


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "keys")


class Port:
    """A port that lets nobody in and keeps what its guard saw."""

    def __init__(self, server: HttpServer, heads: list[HttpHead]) -> None:
        self.number = server.port
        self.heads = heads

    def ask(self, context: ssl.SSLContext) -> bytes:
        with (
            socket.create_connection(("127.0.0.1", self.number), timeout=WITHIN_S) as plain,
            context.wrap_socket(plain, server_hostname="localhost") as client,
        ):
            client.sendall(
                b"GET /x/name HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                b"Authorization: Bearer a\r\n\r\n"
            )
            found = b""
            while some := client.recv(4096):
                found += some
            return found

    def is_ended(self) -> bool:
        """Connect, send nothing, and return whether the server ends it."""
        with socket.create_connection(("127.0.0.1", self.number), timeout=WITHIN_S) as plain:
            return plain.recv(1) == b""


@asynccontextmanager
async def serving(config: TlsConfig | None) -> AsyncIterator[Port]:
    heads: list[HttpHead] = []

    async def guard(head: HttpHead) -> HttpReply:
        heads.append(head)
        return HttpReply({"error": "no"}, 403, headers={"X-Why": "a test"})

    def reached(_: bytes) -> HttpReply:
        raise AssertionError("the guard let it in")

    routes = {("GET", "/x/{name}"): reached}
    server = (
        HttpServer("127.0.0.1", 0, routes, guard=guard)
        if config is None
        else HttpsServer("127.0.0.1", 0, routes, config, guard=guard)
    )
    await server.start()
    try:
        yield Port(server, heads)
    finally:
        await server.close()


def test_a_guard_sees_who_comes_by_which_certificate(authority: Authority) -> None:
    async def run() -> None:
        config = TlsConfig(
            keystore_location=authority.store("server", "localhost"),
            truststore_location=authority.certificate,
            client_auth="requested",
        )
        mine = authority.store("alice")
        trusting = ssl.create_default_context(cafile=str(authority.certificate))
        showing = ssl.create_default_context(cafile=str(authority.certificate))
        showing.load_cert_chain(mine)
        async with serving(config) as port:
            for context in (trusting, showing):
                answer = await asyncio.to_thread(port.ask, context)
                assert answer.startswith(b"HTTP/1.1 403")
                assert b"X-Why: a test" in answer
            with pytest.raises(ssl.SSLCertVerificationError):
                await asyncio.to_thread(port.ask, ssl.create_default_context())
            first, second = port.heads
        der = load_pem_x509_certificates(mine.read_bytes())[0]
        assert (first.route, first.host) == (("GET", "/x/{name}"), "127.0.0.1")
        assert (dict(first.names), first.authorization) == ({"name": "name"}, "Bearer a")
        assert first.certificate is None
        assert second.certificate == der.public_bytes(Encoding.DER)

    asyncio.run(run())


@pytest.mark.parametrize("is_secured", [True, False])
def test_who_sends_nothing_is_ended(
    authority: Authority, monkeypatch: pytest.MonkeyPatch, *, is_secured: bool
) -> None:
    monkeypatch.setattr(https, "HANDSHAKE_S", 0.05)
    monkeypatch.setattr(http, "HEAD_S", 0.05)

    async def run() -> None:
        config = TlsConfig(keystore_location=authority.store("server", "localhost"))
        async with serving(config if is_secured else None) as port:
            assert await asyncio.to_thread(port.is_ended)

    asyncio.run(run())


@pytest.mark.parametrize("is_secured", [True, False])
def test_one_connection_too_many_is_ended(
    authority: Authority, monkeypatch: pytest.MonkeyPatch, *, is_secured: bool
) -> None:
    for module, limits in (
        (https, {"HANDSHAKES_MAX": 0, "HANDSHAKE_S": 3600.0}),
        (http, {"CONNECTIONS_MAX": 0, "HEAD_S": 3600.0}),
    ):
        for name, value in limits.items():
            monkeypatch.setattr(module, name, value)

    async def run() -> None:
        config = TlsConfig(keystore_location=authority.store("server", "localhost"))
        async with serving(config if is_secured else None) as port:
            try:
                assert await asyncio.to_thread(port.is_ended)
            except ConnectionResetError:
                return

    asyncio.run(run())


def test_a_port_of_bookkeepers_settings(authority: Authority) -> None:
    async def run() -> None:
        store = authority.pkcs12("server", "secret", "localhost")
        config = HttpTlsConfig(
            enabled=True,
            key_store=store,
            key_store_password=Secret("secret"),
            trust_store=authority.certificate,
        )
        routes = {("GET", "/x/name"): lambda _: HttpReply("OK")}
        trusting = ssl.create_default_context(cafile=str(authority.certificate))
        showing = ssl.create_default_context(cafile=str(authority.certificate))
        showing.load_cert_chain(authority.store("alice"))
        server = http_server("127.0.0.1", 0, routes, config)
        await server.start()
        try:
            port = Port(server, [])
            answer = await asyncio.to_thread(port.ask, showing)
            assert answer.startswith(b"HTTP/1.1 200")
            answer = b""
            with suppress(OSError):  # an alert, or a connection that only ends
                answer = await asyncio.to_thread(port.ask, trusting)
            assert answer == b""
        finally:
            await server.close()

    asyncio.run(run())


@pytest.mark.parametrize(
    "given", [{"enabled": True}, {"trust_store": Path("t.pem"), "key_store": Path("k.pem")}]
)
def test_settings_that_are_not_whole_are_refused(given: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        HttpTlsConfig(**given)
