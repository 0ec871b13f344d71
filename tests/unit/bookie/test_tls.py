"""A bookie and its client over TLS: nothing of one is served to who has not shaken hands."""

from pathlib import Path
from typing import Any

import pytest
from typing_extensions import override

from tailrace.bookie.security_config import BookieSecurity
from tailrace.core.ledger.bookie_client import BookieClient, ask
from tailrace.core.security.bookkeeper_tls_config import BookKeeperTlsConfig
from tailrace.protocol.bookkeeper.codec import encode_request
from tailrace.protocol.bookkeeper.messages import (
    BatchReadRequest,
    BookieInfoRequest,
    ErrorResponse,
    OperationType,
    StartTlsRequest,
    StatusCode,
)
from tailrace.protocol.bookkeeper.v2_requests import encode_request as encode_v2
from tests.certificates import Authority
from tests.unit.bookie.secure import (
    Keys,
    bookie_with,
    client_of,
    hear,
    on_both_loops,
)
from tests.unit.bookie.tcp import Wire, served
from tests.unit.bookie.world import L1, add, entry_body, read, run
from tests.unit.core.ledger.bookie_contract import BookieContract

EOK, EUA, EBADREQ = StatusCode.EOK, StatusCode.EUA, StatusCode.EBADREQ
GONE = StatusCode.LOCAL_UNAVAILABLE


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Keys:
    return Keys(Authority(tmp_path_factory.mktemp("keys")))


class TestBookieOverTls(BookieContract):
    """All that is promised of a bookie holds over TLS as well."""

    @pytest.fixture(autouse=True)
    def world(self, tmp_path: Path, keys: Keys) -> None:
        self.directory, self.keys = tmp_path, keys

    @override
    async def open_client(self) -> BookieClient:
        self.opened = bookie_with(self.directory, self.keys.of_bookie())
        process = await self.opened.__aenter__()
        return client_of(process, self.keys.of_client())

    @override
    async def close_client(self, client: BookieClient) -> None:
        await client.close()
        await self.opened.__aexit__(None, None, None)


def test_entries_large_and_small_and_batches(keys: Keys, tmp_path: Path) -> None:
    async def story(directory: Path) -> None:
        async with bookie_with(directory, keys.of_bookie()) as process:
            client = client_of(process, keys.of_client())
            payloads = [bytes([i]) * size for i, size in enumerate((1, 700_000, 4_000_000, 7))]
            adds = [ask(client, add(L1, i, each)) for i, each in enumerate(payloads)]
            assert [(await each).status for each in adds] == [EOK] * 4
            for i, payload in enumerate(payloads):
                assert (await ask(client, read(L1, i)))[3] == entry_body(L1, i, payload)
            batch = await ask(client, BatchReadRequest(L1, 0, 4, 2_000_000))
            assert [bytes(each) for each in batch[3]] == [
                entry_body(L1, i, payloads[i]) for i in range(2)
            ]
            await client.close()
            assert process.server._door is not None
            assert process.server._door.metrics.tls_connections_total == 2  # batches have their own

    on_both_loops(story, tmp_path)


def test_mutual_tls(keys: Keys, tmp_path: Path) -> None:
    stranger = Authority(tmp_path / "stranger").store("client")

    async def story(directory: Path) -> None:
        bookie = keys.of_bookie(client_authentication=True)
        async with bookie_with(directory, bookie) as process:
            shown: list[tuple[dict[str, Any], StatusCode]] = [
                ({"client_authentication": True, "keystore": keys.client}, EOK),
                ({"client_authentication": True, "keystore": stranger}, GONE),
                ({}, GONE),
            ]
            for given, status in shown:
                client = client_of(process, keys.of_client(**given))
                assert (await ask(client, add(L1, 0))).status is status, given
                await client.close()

    on_both_loops(story, tmp_path)


def test_a_client_takes_no_other_servers_word(keys: Keys, tmp_path: Path) -> None:
    other = Authority(tmp_path / "other")
    elsewhere = keys.authority.store("elsewhere", "elsewhere.example")
    cases: list[tuple[dict[str, Any], dict[str, Any], StatusCode]] = [
        ({}, {"truststore": other.certificate}, GONE),
        ({"keystore": elsewhere}, {}, GONE),
        ({"keystore": elsewhere}, {"hostname_verification": False}, EOK),
    ]

    async def story(directory: Path) -> None:
        for i, (of_bookie, of_client, status) in enumerate(cases):
            async with bookie_with(directory / str(i), keys.of_bookie(**of_bookie)) as process:
                client = client_of(process, keys.of_client(**of_client))
                assert (await ask(client, add(L1, 0))).status is status, i
                await client.close()

    on_both_loops(story, tmp_path)


def test_where_only_one_side_speaks_tls(
    keys: Keys, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        async with served(tmp_path / "plain") as process:
            client = client_of(process, keys.of_client())
            assert (await ask(client, add(L1, 0))).status is GONE
            assert "EBADREQ to START_TLS: set tlsProviderFactoryClass there too" in caplog.text
            await client.close()
        async with bookie_with(tmp_path / "tls", keys.of_bookie()) as process:
            client = client_of(process, BookKeeperTlsConfig())
            assert (await ask(client, add(L1, 0))).status is EUA
            await client.close()

    run(story)


def test_requests_in_clear_are_refused_as_by_java(keys: Keys, tmp_path: Path) -> None:
    async def story() -> None:
        async with bookie_with(tmp_path, keys.of_bookie()) as process:
            async with await Wire.to(process) as wire:
                for request in (add(L1, 0), read(L1, 0), BookieInfoRequest(1)):
                    answer = await wire.ask(request)
                    assert type(answer) is ErrorResponse
                    assert answer.status is EUA
            for request in (add(L1, 0), read(L1, 0)):
                async with await Wire.to(process) as wire:
                    wire.writer.writelines(encode_v2(request))
                    assert (await wire.receive())[4:8] == (102).to_bytes(4, "big")  # EUA
            async with await Wire.to(process) as wire:
                wire.writer.writelines(encode_v2(BatchReadRequest(L1, 0, 1, 1)))
                assert await wire.is_closed()
            assert process.bookie.metrics.adds_total == 0

    run(story)


def test_plaintext_where_it_is_allowed(keys: Keys, tmp_path: Path) -> None:
    async def story() -> None:
        tls = keys.of_bookie()
        async with bookie_with(tmp_path, tls, allows_plaintext=True) as process:
            client = client_of(process, BookKeeperTlsConfig())
            large = bytes(3_000_000)  # more than a first frame may be
            assert [(await ask(client, add(L1, i, each))).status for i, each in
                    enumerate((large, b"1"))] == [EOK, EOK]  # fmt: skip
            assert (await ask(client, read(L1, 0)))[3] == entry_body(L1, 0, large)
            assert (await ask(client, BatchReadRequest(L1, 1, 1, 99)))[3]
            await client.close()
            async with await Wire.to(process) as wire:  # more than may be in work at once
                wire.writer.write(b"".join(map(bytes, encode_request(5, read(L1, 1)))) * 300)
                assert [(await hear(wire)).status for _ in range(300)] == [EOK] * 300
            async with await Wire.to(process) as wire:
                assert (await wire.ask(add(L1, 2))).status is EOK
                late = await wire.ask(StartTlsRequest())
                assert late == ErrorResponse(EBADREQ, OperationType.START_TLS)
            client = client_of(process, keys.of_client())
            assert (await ask(client, read(L1, 2))).status is EOK
            await client.close()

    run(story)


def test_what_cannot_be_used_is_refused_before_anything_is_locked(
    keys: Keys, tmp_path: Path
) -> None:
    async def story() -> None:
        security = BookieSecurity(tls=keys.of_bookie(keystore=None))
        with pytest.raises(Exception, match="tlsKeyStore: a bookie that speaks TLS needs"):
            async with served(tmp_path, security=security):
                pass
        async with bookie_with(tmp_path, keys.of_bookie()):
            pass

    run(story)
