"""What a stranger can do to a listener that speaks TLS: it is closed alone."""

import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest

from tailrace.protocol.kafka.apis import API_VERSIONS
from tailrace.protocol.kafka.codec import encode_request
from tailrace.protocol.kafka.header import RequestHeader, request_frame
from tailrace.protocol.kafka.messages.api_versions import ApiVersionsRequest
from tests.certificates import Authority, fingerprint, fingerprint_of
from tests.ports import free_port
from tests.process import TailraceProcess

WITHIN_S = 30
CUTS = 60
CONNECTIONS_MAX = 20
"""Fewer than there are attempts: each has to be counted out."""
OPEN = 1000


class Secured(NamedTuple):
    broker: TailraceProcess
    port: int
    authority: Authority
    store: Path


@pytest.fixture
def start(broker_factory: Callable[..., TailraceProcess], tmp_path: Path) -> Callable[..., Secured]:
    def start(*settings: str) -> Secured:
        authority = Authority(tmp_path / "keys")
        store = authority.store("broker", "localhost")
        given = (f"ssl.keystore.location={store}", *settings)
        broker = broker_factory(*(part for each in given for part in ("--set", each)))
        port = free_port()
        broker.start(f"PLAINTEXT://127.0.0.1:{free_port()},SSL://127.0.0.1:{port}")
        return Secured(broker, port, authority, store)

    return start


class Client:
    """TLS over a socket whose bytes can be tampered with."""

    def __init__(self, at: Secured) -> None:
        context = ssl.create_default_context(cafile=str(at.authority.certificate))
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._in, self._out, server_hostname="localhost")
        self.socket = socket.create_connection(("127.0.0.1", at.port), WITHIN_S)

    def handshake(self) -> Iterator[bytes]:
        """Yield what has to be sent next, until the handshake is over."""
        while True:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                yield self._out.read()
                self._in.write(self._received())
            else:
                yield self._out.read()
                return

    def open(self) -> "Client":
        for part in self.handshake():
            self.socket.sendall(part)
        return self

    def encrypted(self, data: bytes) -> bytes:
        self._tls.write(data)
        return self._out.read()

    def ask(self, request: bytes) -> bytes:
        """Send a request and return the first bytes of its answer."""
        self.socket.sendall(self.encrypted(request))
        while True:
            try:
                return self._tls.read(4096)
            except ssl.SSLWantReadError:
                self._in.write(self._received())

    def is_closed(self) -> bool:
        """Read to the end: an alert may come first."""
        try:
            while self.socket.recv(4096):
                pass
        except ConnectionResetError:
            return True
        return True

    def _received(self) -> bytes:
        data = self.socket.recv(65536)
        if not data:
            raise ConnectionError("closed")
        return data

    @property
    def certificate(self) -> str:
        der = self._tls.getpeercert(binary_form=True)
        assert der is not None
        return fingerprint(der)

    def close(self) -> None:
        self.socket.close()


def hello() -> bytes:
    """Return an ApiVersions request with its length."""
    header = RequestHeader(API_VERSIONS.key, 0, 1, "stranger")
    body = encode_request(API_VERSIONS, 0, ApiVersionsRequest())
    return request_frame(API_VERSIONS, header, body)


def test_a_handshake_that_is_cut_or_changed_anywhere_ends_its_connection_alone(
    start: Callable[..., Secured],
) -> None:
    at = start(f"max.connections={CONNECTIONS_MAX}", "connection.handshake.timeout.ms=60000")
    random = Random(1)
    with closing(Client(at)) as probe:
        length = sum(len(part) for part in _sent(probe))
    with closing(Client(at)) as beside:
        beside.open()
        for number in range(CUTS):
            with closing(Client(at)) as client:
                _spoil(client, random.randrange(length), is_cut=number % 2 == 0, random=random)
                assert client.is_closed()
            assert beside.ask(hello())


def _sent(client: Client) -> Iterator[bytes]:
    for part in client.handshake():
        client.socket.sendall(part)
        yield part


def _spoil(client: Client, at: int, *, is_cut: bool, random: Random) -> None:
    """Send the handshake up to its byte `at`, and then nothing; or with that byte changed."""
    try:
        for part in client.handshake():
            if at >= len(part):
                client.socket.sendall(part)
                at -= len(part)
                continue
            changed = bytearray(part)
            changed[at] ^= 1 << random.randrange(8)
            client.socket.sendall(part[:at] if is_cut else changed)
            break
    except (ssl.SSLError, ConnectionError):
        return  # the broker has noticed
    client.socket.shutdown(socket.SHUT_WR)


def test_records_that_are_changed_or_too_long_end_their_connection_alone(
    start: Callable[..., Secured],
) -> None:
    at = start(f"max.connections={CONNECTIONS_MAX}")
    random = Random(2)
    with closing(Client(at)) as beside:
        beside.open()
        for _ in range(CUTS):
            with closing(Client(at)) as client:
                client.open()
                assert client.ask(hello())
                spoiled = bytearray(client.encrypted(hello()))
                spoiled[random.randrange(len(spoiled))] ^= 0xFF
                client.socket.sendall(spoiled)
                client.socket.shutdown(socket.SHUT_WR)
                assert client.is_closed()
        for length in (b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff"):
            with closing(Client(at)) as client:
                client.open().socket.sendall(client.encrypted(length + bytes(100)))
                assert client.is_closed()
        for byte in hello()[:-1]:
            beside.socket.sendall(beside.encrypted(bytes([byte])))
        assert beside.ask(hello()[-1:])


def test_a_thousand_connections_stay_when_the_certificate_changes(
    start: Callable[..., Secured],
) -> None:
    at = start("log.level=info")
    clients = [Client(at).open() for _ in range(OPEN)]
    try:
        before = clients[0].certificate
        at.authority.store("broker", "localhost")
        at.broker.wait_for("tls_reloaded")
        assert all(client.ask(hello()) for client in clients)
        with closing(Client(at).open()) as later:
            assert later.ask(hello())
            assert later.certificate == fingerprint_of(at.store) != before
    finally:
        for client in clients:
            client.close()
