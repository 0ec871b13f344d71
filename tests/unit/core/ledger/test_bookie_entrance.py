"""A client whose bookie does not do what the beginning of a connection asks of it."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from tailrace.core.ledger.bookie_client import ask
from tailrace.core.ledger.security_config import (
    SASL_FACTORY,
    BookieClientAuth,
    BookieClientSecurity,
)
from tailrace.core.security.jaas_config import JaasConfig
from tailrace.protocol.bookkeeper.codec import decode_request, encode_response
from tailrace.protocol.bookkeeper.messages import (
    AuthResponse,
    ErrorResponse,
    OperationType,
    StartTlsResponse,
    StatusCode,
)
from tests.certificates import Authority
from tests.unit.bookie.secure import HOST, Keys, client_with, on_both_loops
from tests.unit.bookie.world import L1, add

EOK, EIO, EUA = StatusCode.EOK, StatusCode.EIO, StatusCode.EUA
GONE = StatusCode.LOCAL_UNAVAILABLE
AUTH, START_TLS = OperationType.AUTH, OperationType.START_TLS

Peer = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Says = Callable[[Peer], Awaitable[None]]


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Keys:
    return Keys(Authority(tmp_path_factory.mktemp("keys")))


@pytest.fixture(scope="module")
def with_tls(keys: Keys) -> BookieClientSecurity:
    return BookieClientSecurity(tls=keys.of_client())


@pytest.fixture(scope="module")
def with_sasl(tmp_path_factory: pytest.TempPathFactory) -> BookieClientSecurity:
    file = tmp_path_factory.mktemp("jaas") / "jaas.conf"
    file.write_text('BookKeeper { a.Module required username="alice" password="sesame"; };')
    return BookieClientSecurity(
        jaas=JaasConfig(file=file), auth=BookieClientAuth(factory=SASL_FACTORY)
    )


async def asked(peer: Peer) -> None:
    """Take one request."""
    size = int.from_bytes(await peer[0].readexactly(4), "big")
    decode_request(await peer[0].readexactly(size))


async def nothing(peer: Peer) -> None:
    """Never answer."""


async def start(peer: Peer) -> None:
    """Answer START_TLS, then nothing."""
    await asked(peer)
    peer[1].writelines(encode_response(0, StartTlsResponse(EOK)))


async def start_and_end(peer: Peer) -> None:
    await start(peer)
    await peer[0].read(1)
    peer[1].close()


async def noise(peer: Peer) -> None:
    await asked(peer)
    peer[1].writelines(encode_response(0, StartTlsResponse(EOK)))
    await peer[0].read(1)
    peer[1].write(b"\x00" * 64)


async def garbage(peer: Peer) -> None:
    peer[1].write(b"\0\0\0\x04junk")


async def large(peer: Peer) -> None:
    peer[1].write(b"\x7f\xff\xff\xff")


async def other_answers(peer: Peer) -> None:
    peer[1].writelines(encode_response(0, ErrorResponse(EIO, 7)) * 20)


async def another_plugin(peer: Peer) -> None:
    await asked(peer)
    peer[1].writelines(encode_response(0, AuthResponse(EOK, "kerberos", b"")))


async def bad_challenge(peer: Peer) -> None:
    await asked(peer)
    peer[1].writelines(encode_response(0, ErrorResponse(EIO, START_TLS)))  # as Java's bookie may
    peer[1].writelines(encode_response(0, AuthResponse(EOK, "sasl", b"nonce=n,algorithm=md5")))


async def refusal(peer: Peer) -> None:
    await asked(peer)
    peer[1].writelines(encode_response(0, ErrorResponse(EUA, AUTH)))


def fails(security: BookieClientSecurity, says: Says, words: str, directory: Path) -> None:
    """Have a client connect to who says so; its request fails within its time, for that reason."""

    async def story(_: Path) -> None:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await says((reader, writer))
            await reader.read()
            writer.close()

        server = await asyncio.start_server(serve, HOST, 0)
        port = server.sockets[0].getsockname()[1]
        patience_ms = 100 if "Timeout" in words else 10_000
        client = client_with(port, security, connect_timeout_ms=patience_ms)
        assert (await ask(client, add(L1, 0))).status is GONE
        assert words in client._trouble
        assert client._metrics.connect_failures_total == 1
        await client.close()
        server.close()
        await server.wait_closed()

    on_both_loops(story, directory)


@pytest.mark.parametrize(
    ("says", "words"),
    [
        (nothing, "TimeoutError"),
        (start, "TimeoutError"),
        (start_and_end, "TLS handshake"),
        (noise, "TLS handshake"),
        (garbage, "protocol v2 where v3 is spoken"),
        (large, "a frame of 2147483647 bytes"),
        (other_answers, "no answer to START_TLS"),
    ],
    ids=lambda each: getattr(each, "__name__", None),
)
def test_tls(with_tls: BookieClientSecurity, tmp_path: Path, says: Says, words: str) -> None:
    fails(with_tls, says, words, tmp_path)


@pytest.mark.parametrize(
    ("says", "words"),
    [
        (nothing, "TimeoutError"),
        (another_plugin, "authenticates by 'kerberos'"),
        (bad_challenge, "another algorithm than md5-sess"),
        (refusal, "answers EUA to 'alice'"),
        (large, "a frame of 2147483647 bytes"),
    ],
    ids=lambda each: getattr(each, "__name__", None),
)
def test_sasl(with_sasl: BookieClientSecurity, tmp_path: Path, says: Says, words: str) -> None:
    fails(with_sasl, says, words, tmp_path)


def test_a_client_that_closes_in_the_middle(with_tls: BookieClientSecurity, tmp_path: Path) -> None:
    async def story(_: Path) -> None:
        reached = asyncio.Event()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await start((reader, writer))
            await reader.read(1)  # its first flight
            reached.set()
            await reader.read()
            writer.close()

        server = await asyncio.start_server(serve, HOST, 0)
        client = client_with(server.sockets[0].getsockname()[1], with_tls)
        answer = ask(client, add(L1, 0))
        await reached.wait()
        await client.close()
        assert (await answer).status is GONE
        server.close()
        await server.wait_closed()

    on_both_loops(story, tmp_path)
