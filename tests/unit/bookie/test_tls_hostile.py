"""Connections that begin as no client's does: nothing stays behind, and no other is disturbed."""

import asyncio
import socket
import ssl
from pathlib import Path
from unittest.mock import Mock

import pytest

from tailrace.bookie.door import Door
from tailrace.bookie.security_config import BookieSecurity
from tailrace.bookie.server import BookieServer
from tailrace.core.ledger.bookie_client import ask
from tailrace.core.security.bookkeeper_tls import make_context
from tailrace.protocol.bookkeeper.codec import encode_request, encode_response
from tailrace.protocol.bookkeeper.messages import (
    AddRequest,
    ErrorResponse,
    OperationType,
    StartTlsRequest,
    StartTlsResponse,
    StatusCode,
)
from tests.certificates import Authority
from tests.unit.bookie.secure import (
    HOST,
    Keys,
    bookie_with,
    client_at,
    client_of,
    hear,
    on_both_loops,
)
from tests.unit.bookie.tcp import Wire
from tests.unit.bookie.test_hostile import until
from tests.unit.bookie.world import L1, add, entry_body, read, run

EOK, EUA, EBADREQ = StatusCode.EOK, StatusCode.EUA, StatusCode.EBADREQ
GONE = StatusCode.LOCAL_UNAVAILABLE


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Keys:
    return Keys(Authority(tmp_path_factory.mktemp("keys")))


async def starting(server: BookieServer) -> Wire:
    """Return a connection whose bookie waits for the handshake."""
    wire = await Wire.to_port(server.port)
    wire.writer.writelines(encode_request(7, StartTlsRequest()))
    assert await hear(wire) == StartTlsResponse(EOK)
    return wire


def test_bytes_behind_start_tls_do_not_pass_for_encrypted_ones(keys: Keys, tmp_path: Path) -> None:
    """The fault of many protocols with STARTTLS: what a third one injects runs as the client's."""

    async def story(directory: Path) -> None:
        async with bookie_with(directory, keys.of_bookie()) as process:
            wire = await Wire.to(process)
            injected = b"".join(map(bytes, encode_request(8, add(L1, 0))))
            wire.writer.write(b"".join(map(bytes, encode_request(7, StartTlsRequest()))) + injected)
            async with wire:
                assert await hear(wire) == StartTlsResponse(EOK)
                assert await wire.is_closed()
            async with await starting(process.server) as wire:  # and in a packet of its own
                wire.writer.write(injected)
                await wire.reader.read()
            assert process.bookie.metrics.adds_total == 0

    on_both_loops(story, tmp_path)


def test_a_client_takes_no_bytes_in_clear_behind_the_answer(keys: Keys, tmp_path: Path) -> None:
    said = b"".join(map(bytes, encode_response(0, StartTlsResponse(EOK))))

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(4)
        writer.write(said + b"\0\0\0\1x")
        await reader.read()
        writer.close()

    async def story(_: Path) -> None:
        server = await asyncio.start_server(serve, HOST, 0)
        client = client_at(server.sockets[0].getsockname()[1], keys.of_client())
        assert (await ask(client, add(L1, 0))).status is GONE
        assert "in clear before the handshake" in client._trouble
        await client.close()
        server.close()
        await server.wait_closed()

    on_both_loops(story, tmp_path)


def test_start_tls_twice(keys: Keys, tmp_path: Path) -> None:
    async def story(directory: Path) -> None:
        async with bookie_with(directory, keys.of_bookie()) as process:
            wire = await starting(process.server)
            context = ssl.create_default_context(cafile=str(keys.authority.certificate))
            await wire.writer.start_tls(context, server_hostname=HOST)
            async with wire:
                again = await wire.ask(StartTlsRequest())
                assert again == ErrorResponse(EBADREQ, OperationType.START_TLS)
                assert (await wire.ask(add(L1, 0))).status is EOK

    on_both_loops(story, tmp_path)


def test_a_handshake_that_is_cut_anywhere(keys: Keys, tmp_path: Path) -> None:
    """Prefixes of what a client with a certificate says, then the end: nothing stays behind."""
    tls = keys.of_client(client_authentication=True, keystore=keys.client)
    context = make_context(tls, is_bookie=False)

    async def story(directory: Path) -> None:
        async with bookie_with(directory, keys.of_bookie(client_authentication=True)) as process:
            door = process.server._door
            assert door is not None
            cuts = 0
            for flight in (1, 2):
                size = len(await said_in(flight, 2**20, context, process.server))
                cuts += 1
                for cut in range(0, size, 97):
                    await said_in(flight, cut, context, process.server)
                    cuts += 1
            await until(lambda: not door._visits)
            assert door.metrics.refusals_total + door.metrics.tls_connections_total == cuts
            assert door.metrics.tls_connections_total == 1, "the one that was whole"
            client = client_of(process, tls)
            assert (await ask(client, add(L1, 0))).status is EOK
            await client.close()

    on_both_loops(story, tmp_path)


async def said_in(flight: int, cut: int, context: ssl.SSLContext, server: BookieServer) -> bytes:
    """Shake hands up to so many bytes of a flight, then end; return what was said of it."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = context.wrap_bio(incoming, outgoing, server_hostname=HOST)
    async with await starting(server) as wire:
        for number in range(1, flight + 1):
            try:
                tls.do_handshake()
            except ssl.SSLWantReadError:
                assert number < 2, "TLS 1.3 has two flights"
            said = outgoing.read()
            wire.writer.write(said if number < flight else said[:cut])
            if number < flight:
                while not outgoing.pending:
                    incoming.write(await wire.reader.read(65536))
                    try:
                        tls.do_handshake()
                    except ssl.SSLWantReadError:
                        continue
        await wire.writer.drain()
        return said[:cut]


def test_who_never_says_anything_is_cut(
    keys: Keys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tailrace.bookie.door.KNOWN_WITHIN_S", 0.05)
    monkeypatch.setattr("tailrace.core.runtime.first_frames.HANDSHAKE_S", 0.05)

    async def story(directory: Path) -> None:
        async with bookie_with(directory, keys.of_bookie()) as process:
            async with await Wire.to(process) as wire:
                assert await wire.is_closed()
            async with await starting(process.server) as wire:
                assert await wire.reader.read() == b""

    on_both_loops(story, tmp_path)


def test_strangers_are_bounded(keys: Keys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tailrace.bookie.door.STRANGERS_MAX", 2)

    async def story() -> None:
        async with bookie_with(tmp_path, keys.of_bookie()) as process:
            first, second = await starting(process.server), await starting(process.server)
            async with await Wire.to(process) as third:
                assert await third.is_closed()
            async with first, second:
                pass
            door = process.server._door
            assert door is not None
            await until(lambda: not door._visits)
            client = client_of(process, keys.of_client())
            assert (await ask(client, add(L1, 0))).status is EOK
            await client.close()

    run(story)


@pytest.mark.parametrize("count", [16, 40])
def test_requests_before_a_client_is_known_are_counted(
    keys: Keys, tmp_path: Path, count: int
) -> None:
    async def story() -> None:
        async with (
            bookie_with(tmp_path, keys.of_bookie()) as process,
            await Wire.to(process) as wire,
        ):
            frame = b"".join(map(bytes, encode_request(1, read(L1, 0))))
            wire.writer.write(frame * count)
            for _ in range(16):
                assert (await hear(wire)).status is EUA
            assert await wire.is_closed()

    run(story)


def test_a_large_frame_of_a_stranger_ends_the_connection(keys: Keys, tmp_path: Path) -> None:
    async def story() -> None:
        async with (
            bookie_with(tmp_path, keys.of_bookie()) as process,
            await Wire.to(process) as wire,
        ):
            body = entry_body(L1, 0, bytes(20_000))
            wire.writer.writelines(encode_request(1, AddRequest(L1, 0, b"k" * 20, (body,))))
            assert await wire.is_closed()

    run(story)


def test_a_bookie_that_closes_ends_strangers_too(keys: Keys, tmp_path: Path) -> None:
    async def story(directory: Path) -> None:
        async with bookie_with(directory, keys.of_bookie()) as process:
            shaking = await starting(process.server)
            silent = await Wire.to(process)
        async with shaking, silent:
            assert await shaking.is_closed()
            assert await silent.is_closed()

    on_both_loops(story, tmp_path)


def test_a_connection_of_the_turn_in_which_a_bookie_closes(keys: Keys) -> None:
    """Its task never begins, so it is not what ends it."""

    async def story() -> None:
        door = Door(BookieSecurity(tls=keys.of_bookie()))
        ours, theirs = socket.socketpair()
        transport, _ = await asyncio.get_running_loop().connect_accepted_socket(
            asyncio.Protocol, ours
        )
        door.protocol(Mock).connection_made(transport)
        await door.close()
        assert transport.is_closing()
        theirs.close()

    run(story)
