"""Clients of a bookie that authenticate: by DIGEST-MD5, inside of TLS and outside, and by roles."""

import asyncio
import logging
import ssl
from pathlib import Path
from typing import Any

import pytest
from typing_extensions import override

from tailrace.bookie import security_config as of_bookie
from tailrace.bookie.security_config import BookieSecurity
from tailrace.core.ledger import security_config as of_client
from tailrace.core.ledger.bookie_client import BookieClient, ask
from tailrace.core.ledger.security_config import BookieClientAuth, BookieClientSecurity
from tailrace.core.runtime.config import ConfigError
from tailrace.core.security.bookkeeper_tls_config import BookKeeperTlsConfig
from tailrace.core.security.digest_md5 import BOOKKEEPER, DigestServer
from tailrace.core.security.jaas_config import JaasConfig
from tailrace.protocol.bookkeeper.codec import decode_request, encode_request, encode_response
from tailrace.protocol.bookkeeper.messages import (
    AuthRequest,
    AuthResponse,
    BatchReadRequest,
    ErrorResponse,
    OperationType,
    StartTlsRequest,
    StartTlsResponse,
    StatusCode,
)
from tailrace.protocol.bookkeeper.v2_requests import encode_request as encode_v2
from tests.certificates import Authority
from tests.unit.bookie.secure import Keys, bookie_with, client_with, hear, on_both_loops
from tests.unit.bookie.tcp import Wire, served
from tests.unit.bookie.world import L1, add, entry_body, read, run
from tests.unit.core.ledger.bookie_contract import BookieContract

EOK, EUA, GONE = StatusCode.EOK, StatusCode.EUA, StatusCode.LOCAL_UNAVAILABLE
PASSWORD = "sesame \u00e4\u4e16"
NO_TLS = BookKeeperTlsConfig()


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Keys:
    return Keys(Authority(tmp_path_factory.mktemp("keys")))


@pytest.fixture(scope="module")
def jaas(tmp_path_factory: pytest.TempPathFactory) -> JaasConfig:
    file = tmp_path_factory.mktemp("jaas") / "jaas.conf"
    file.write_text(f"""
        Bookie {{ a.Module required user_bookkeeper="{PASSWORD}" user_other="{PASSWORD}"; }};
        BookKeeper {{ a.Module required username="bookkeeper" password="{PASSWORD}"; }};
        Wrong {{ a.Module required username="bookkeeper" password="simsalabim"; }};
        Unknown {{ a.Module required username="bookkeeper2" password="{PASSWORD}"; }};
        Other {{ a.Module required username="other" password="{PASSWORD}"; }};
        Empty {{ a.Module required; }};
    """)
    return JaasConfig(file=file)


def sasl(jaas: JaasConfig, **changes: Any) -> dict[str, Any]:
    return {"factory": of_bookie.SASL_FACTORY, "jaas": jaas, **changes}


def client_security(
    jaas: JaasConfig, section: str = "BookKeeper", tls: BookKeeperTlsConfig = NO_TLS
) -> BookieClientSecurity:
    auth = BookieClientAuth(factory=of_client.SASL_FACTORY, section=section)
    return BookieClientSecurity(tls=tls, jaas=jaas, auth=auth)


class TestBookieWithSasl(BookieContract):
    """All that is promised of a bookie holds once a client is known."""

    @pytest.fixture(autouse=True)
    def world(self, tmp_path: Path, jaas: JaasConfig) -> None:
        self.directory, self.jaas = tmp_path, jaas

    @override
    async def open_client(self) -> BookieClient:
        self.opened = bookie_with(self.directory, NO_TLS, **sasl(self.jaas))
        process = await self.opened.__aenter__()
        return client_with(process.server.port, client_security(self.jaas))

    @override
    async def close_client(self, client: BookieClient) -> None:
        await client.close()
        await self.opened.__aexit__(None, None, None)


@pytest.mark.parametrize("over_tls", [False, True], ids=["clear", "tls"])
def test_who_comes_in(
    keys: Keys, jaas: JaasConfig, tmp_path: Path, over_tls: bool, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    of_server = keys.of_bookie() if over_tls else NO_TLS
    tls = keys.of_client() if over_tls else NO_TLS

    async def story(directory: Path) -> None:
        async with bookie_with(directory, of_server, **sasl(jaas)) as process:
            for section, status in (
                ("BookKeeper", EOK),
                ("Wrong", GONE),
                ("Unknown", GONE),
                ("Other", GONE),
            ):
                client = client_with(process.server.port, client_security(jaas, section, tls))
                assert (await ask(client, add(L1, 0))).status is status, section
                if status is EOK:
                    batch = await ask(client, BatchReadRequest(L1, 0, 1, 99))
                    assert bytes(batch[3][0]) == entry_body(L1, 0, b"payload")
                else:
                    assert "the bookie answers EUA to" in client._trouble
                await client.close()
            without = client_with(process.server.port, BookieClientSecurity(tls=tls))
            assert (await ask(without, add(L1, 1))).status is EUA
            await without.close()
            assert process.bookie.metrics.adds_total == 1

    on_both_loops(story, tmp_path)
    for secret in ("sesame", "simsalabim"):
        assert secret not in caplog.text


def test_a_bookie_that_asks_nobody(
    jaas: JaasConfig, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)

    async def story() -> None:
        async with served(tmp_path) as process:
            client = client_with(process.server.port, client_security(jaas))
            assert (await ask(client, add(L1, 0))).status is EOK
            await client.close()

    run(story)
    assert "bookie_without_authentication" in caplog.text


def test_a_bookie_that_does_not_know_the_password(jaas: JaasConfig, tmp_path: Path) -> None:
    """It lets everybody in, and then it has their entries."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        challenge = DigestServer(BOOKKEEPER, "n", {}.get).evaluate(b"")
        for said in (challenge, b"rspauth=" + b"0" * 32):
            size = int.from_bytes(await reader.readexactly(4), "big")
            txn_id, _ = decode_request(await reader.readexactly(size))
            writer.writelines(encode_response(txn_id, AuthResponse(EOK, "sasl", said)))
        assert await reader.read() == b""
        writer.close()

    async def story() -> None:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        client = client_with(server.sockets[0].getsockname()[1], client_security(jaas))
        assert (await ask(client, add(L1, 0))).status is GONE
        assert "the server does not know the password" in client._trouble
        await client.close()
        server.close()
        await server.wait_closed()

    run(story)


@pytest.mark.parametrize(
    "messages",
    [
        [b"early"],
        [b"", b"x" * 5000],
        [b"", b'username="bookkeeper"'],
        [b"", b""],
    ],
    ids=["response first", "huge", "half", "twice"],
)
def test_exchanges_that_no_client_has(
    jaas: JaasConfig, tmp_path: Path, messages: list[bytes]
) -> None:
    async def story() -> None:
        async with bookie_with(tmp_path, NO_TLS, **sasl(jaas)) as process:
            async with await Wire.to(process) as wire:
                for message in messages[:-1]:
                    assert (await wire.ask(AuthRequest("sasl", message))).status is EOK
                end = await wire.ask(AuthRequest("sasl", messages[-1]))
                assert end == ErrorResponse(EUA, OperationType.AUTH)
                assert await wire.is_closed()
            async with await Wire.to(process) as wire:
                for message in messages:
                    wire.writer.writelines(encode_v2(AuthRequest("sasl", message)))
                await wire.reader.read()  # v2 has no words for a failure

    run(story)


@pytest.mark.parametrize("is_first", [False, True], ids=["behind", "before"])
@pytest.mark.parametrize("plain", [False, True], ids=["tls", "either"])
def test_javas_client_authenticates_beside_start_tls(
    keys: Keys, jaas: JaasConfig, tmp_path: Path, is_first: bool, plain: bool
) -> None:
    """In clear, both in one write, in either order; it hears its challenge inside of TLS."""
    tls = ssl.create_default_context(cafile=str(keys.authority.certificate))
    both = [encode_request(1, StartTlsRequest()), encode_request(2, AuthRequest("sasl", b""))]

    async def story(directory: Path) -> None:
        security = sasl(jaas, allows_plaintext=plain)
        async with bookie_with(directory, keys.of_bookie(), **security) as process:
            wire = await Wire.to(process)
            for parts in both[::-1] if is_first else both:
                wire.writer.writelines(parts)
            assert await hear(wire) == StartTlsResponse(EOK)
            await wire.writer.start_tls(tls, server_hostname="127.0.0.1")
            async with wire:
                challenge = await hear(wire)
                assert isinstance(challenge, AuthResponse)
                assert b"md5-sess" in bytes(challenge.payload)
                assert (await wire.ask(read(L1, 0))).status is EUA

    on_both_loops(story, tmp_path)


def test_an_authentication_in_clear_without_start_tls(
    keys: Keys, jaas: JaasConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tailrace.bookie.door.EARLY_S", 0.01)

    async def story() -> None:
        begin = AuthRequest("sasl", b"")
        refused = ErrorResponse(EUA, OperationType.AUTH)
        async with bookie_with(tmp_path / "tls", keys.of_bookie(), **sasl(jaas)) as process:
            async with await Wire.to(process) as wire:
                assert await wire.ask(begin) == refused
            async with await Wire.to(process) as wire:  # something else comes behind
                wire.writer.writelines([*encode_request(1, begin), *encode_request(2, read(L1, 0))])
                assert await hear(wire) == refused
                assert (await hear(wire)).status is EUA
        security = sasl(jaas, allows_plaintext=True)
        async with bookie_with(tmp_path / "either", keys.of_bookie(), **security) as process:
            client = client_with(process.server.port, client_security(jaas))
            assert (await ask(client, add(L1, 0))).status is EOK
            await client.close()

    run(story)


def test_roles_in_certificates(keys: Keys, tmp_path: Path) -> None:
    tls = keys.of_bookie(client_authentication=True)
    rules = {"factory": of_bookie.ROLES_FACTORY, "roles": ("broker",)}

    async def story(directory: Path) -> None:
        async with bookie_with(directory, tls, **rules) as process:
            for unit, status in (("0:broker", EOK), ("0:guest", EUA)):
                store = keys.authority.store("member", unit=unit)
                shown = keys.of_client(client_authentication=True, keystore=store)
                client = client_with(process.server.port, BookieClientSecurity(tls=shown))
                assert (await ask(client, add(L1, 0))).status is status
                await client.close()

    on_both_loops(story, tmp_path)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"section": "Nobody"}, "no section Nobody"),
        ({"section": "Empty"}, "section Empty: no user; write user_NAME=PASSWORD"),
        ({"allowed_ids": "("}, "saslJaasClientAllowedIds: "),
    ],
)
def test_settings_of_a_bookie_that_cannot_be_used(
    jaas: JaasConfig, tmp_path: Path, changes: dict[str, str], words: str
) -> None:
    async def story() -> None:
        with pytest.raises(ConfigError, match=words):
            async with bookie_with(tmp_path, NO_TLS, **sasl(jaas, **changes)):
                pass

    run(story)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"factory": "x"}, "SASLBookieAuthProviderFactory, .* or nothing"),
        ({"factory": of_bookie.SASL_FACTORY}, "set saslJaasConfigFile too"),
        ({"factory": of_bookie.ROLES_FACTORY}, "set authorizedRoles too"),
        ({"factory": of_bookie.ROLES_FACTORY, "roles": ("a",)}, "set tlsProviderFactoryClass and"),
    ],
)
def test_settings_that_contradict_each_other(given: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        BookieSecurity(**given)


def test_settings_of_a_client_that_cannot_be_used(jaas: JaasConfig) -> None:
    with pytest.raises(ConfigError, match="section Empty: it needs username and password"):
        client_with(1, client_security(jaas, "Empty"))
    with pytest.raises(ValueError, match="set saslJaasConfigFile too"):
        BookieClientSecurity(auth=BookieClientAuth(factory=of_client.SASL_FACTORY))
    with pytest.raises(ValueError, match="SASLClientProviderFactory or nothing"):
        BookieClientAuth(factory="x")
