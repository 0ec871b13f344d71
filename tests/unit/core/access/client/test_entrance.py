"""A blocking connection over TLS that logs in, against a peer that answers as the test says."""

import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tailrace.core.access.client.config import ClientConfig
from tailrace.core.access.client.entrance import ClientEntrance
from tailrace.core.runtime.config import Secret
from tailrace.core.runtime.kafka_connection import KafkaConnection, NoAnswer, NotLetIn
from tailrace.core.security.tls_config import TlsClientConfig, TlsConfig
from tailrace.core.security.tls_server import TlsServer
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.kafka.apis import (
    API_VERSIONS,
    APIS,
    HEARTBEAT,
    SASL_AUTHENTICATE,
    SASL_HANDSHAKE,
)
from tailrace.protocol.kafka.codec import decode_request
from tailrace.protocol.kafka.header import decode_request_header, response_frame
from tailrace.protocol.kafka.messages.api_versions import ApiVersion, ApiVersionsResponse
from tailrace.protocol.kafka.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from tailrace.protocol.kafka.messages.sasl_authenticate import SaslAuthenticateResponse
from tailrace.protocol.kafka.messages.sasl_handshake import SaslHandshakeResponse
from tests.certificates import Authority

JAAS = Secret(
    "org.apache.kafka.common.security.plain.PlainLoginModule required "
    'username="me" password="sesame";'
)
ANSWERS: dict[int, Any] = {
    API_VERSIONS.key: ApiVersionsResponse(
        error_code=0,
        api_keys=[
            ApiVersion(api_key=each.key, min_version=0, max_version=1)
            for each in (API_VERSIONS, SASL_HANDSHAKE, SASL_AUTHENTICATE, HEARTBEAT)
        ],
    ),
    SASL_HANDSHAKE.key: SaslHandshakeResponse(error_code=0, mechanisms=["PLAIN"]),
    HEARTBEAT.key: HeartbeatResponse(error_code=5),
}


def let_in(lasts_ms: int = 0) -> SaslAuthenticateResponse:
    return SaslAuthenticateResponse(
        error_code=0, error_message=None, auth_bytes=b"", session_lifetime_ms=lasts_ms
    )


class Peer:
    """Answers one connection; `heard` are the APIs that it was asked."""

    def __init__(self, context: ssl.SSLContext | None, **answers: Any) -> None:
        self._context = context
        self.answers = ANSWERS | {APIS_BY_NAME[name]: each for name, each in answers.items()}
        self.heard: list[str] = []
        self.passwords: list[bytes] = []

    @contextmanager
    def listening(self) -> Iterator[int]:
        with closing(socket.create_server(("127.0.0.1", 0))) as listening:
            thread = threading.Thread(target=self._serve, args=(listening,))
            thread.start()
            yield listening.getsockname()[1]
            thread.join(10)
            assert not thread.is_alive()

    def _serve(self, listening: socket.socket) -> None:
        connection, _ = listening.accept()
        with closing(connection), suppress(OSError):
            if self._context is not None:
                connection = self._context.wrap_socket(connection, server_side=True)
            with connection, connection.makefile("rb") as stream:
                while size := stream.read(4):
                    answer = self._answer(stream.read(int.from_bytes(size, "big")))
                    if not answer:
                        return
                    connection.sendall(answer)

    def _answer(self, frame: bytes) -> bytes:
        header, at = decode_request_header(memoryview(frame))
        api = APIS[header.api_key]
        self.heard.append(api.name)
        if api is SASL_AUTHENTICATE:
            request = decode_request(api, header.api_version, memoryview(frame)[at:])
            self.passwords.append(bytes(request.auth_bytes))
        answer = self.answers[api.key]
        if isinstance(answer, bytes):
            return answer
        return b"".join(response_frame(api, header.api_version, header.correlation_id, answer))


APIS_BY_NAME = {"authenticate": SASL_AUTHENTICATE.key, "handshake": SASL_HANDSHAKE.key}


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("keys"))


@pytest.fixture(scope="module")
def server(authority: Authority) -> ssl.SSLContext:
    return TlsServer(TlsConfig(keystore_location=authority.store("broker", "127.0.0.1"))).context


@pytest.fixture(scope="module")
def entrance(authority: Authority) -> ClientEntrance:
    tls = TlsClientConfig(truststore_location=authority.certificate)
    config = ClientConfig(protocol="SASL_SSL", mechanism="PLAIN", jaas=JAAS, tls=tls)
    return ClientEntrance(config)


def connected(port: int, entrance: ClientEntrance, timeout_s: float = 10) -> KafkaConnection:
    return KafkaConnection("127.0.0.1", port, timeout_s, "test", entrance)


def test_tls_comes_first_then_the_log_in_then_requests(
    server: ssl.SSLContext, entrance: ClientEntrance
) -> None:
    peer = Peer(server, authenticate=let_in())
    with peer.listening() as port, closing(connected(port, entrance)) as connection:
        for _ in range(2):
            assert connection.ask(HEARTBEAT, HeartbeatRequest(group_id="g")).error_code == 5
    assert peer.heard == ["ApiVersions", "SaslHandshake", "SaslAuthenticate", *["Heartbeat"] * 2]
    assert peer.passwords == [b"\0me\0sesame"]


def test_a_session_is_renewed_before_it_ends(
    server: ssl.SSLContext, entrance: ClientEntrance
) -> None:
    peer = Peer(server, authenticate=let_in(lasts_ms=1))
    with peer.listening() as port, closing(connected(port, entrance)) as connection:
        over_s = time.monotonic() + 0.001
        while time.monotonic() <= over_s:
            pass
        connection.ask(HEARTBEAT, HeartbeatRequest(group_id="g"))
    assert peer.heard[1:] == [*["SaslHandshake", "SaslAuthenticate"] * 2, "Heartbeat"]


@pytest.mark.parametrize(
    ("answers", "words"),
    [
        (
            {
                "handshake": SaslHandshakeResponse(
                    error_code=ErrorCode.UNSUPPORTED_SASL_MECHANISM, mechanisms=["GSSAPI"]
                )
            },
            "does not offer PLAIN; it offers 'GSSAPI'",
        ),
        (
            {
                "handshake": SaslHandshakeResponse(
                    error_code=ErrorCode.ILLEGAL_SASL_STATE, mechanisms=[]
                )
            },
            "ILLEGAL_SASL_STATE",
        ),
        (
            {
                "authenticate": SaslAuthenticateResponse(
                    error_code=ErrorCode.SASL_AUTHENTICATION_FAILED,
                    error_message="Invalid username or password\n\x1b[31m",
                    auth_bytes=b"",
                )
            },
            r"SASL_AUTHENTICATION_FAILED: 'Invalid username or password\\n\\x1b\[31m'",
        ),
        (
            {
                "authenticate": SaslAuthenticateResponse(
                    error_code=0, error_message=None, auth_bytes=b"more"
                )
            },
            "is not empty",
        ),
    ],
)
def test_a_broker_that_does_not_let_us_in(
    server: ssl.SSLContext, entrance: ClientEntrance, answers: dict[str, Any], words: str
) -> None:
    peer = Peer(server, **answers)
    with peer.listening() as port, pytest.raises(NotLetIn, match=words) as refused:
        connected(port, entrance)
    assert "sesame" not in str(refused.value)
    assert "Heartbeat" not in peer.heard


def test_no_password_goes_to_a_broker_that_is_not_trusted(
    entrance: ClientEntrance, tmp_path: Path
) -> None:
    store = Authority(tmp_path / "others").store("broker", "127.0.0.1")
    peer = Peer(TlsServer(TlsConfig(keystore_location=store)).context, authenticate=let_in())
    with peer.listening() as port, pytest.raises(NotLetIn, match="CERTIFICATE_VERIFY_FAILED"):
        connected(port, entrance)
    assert peer.heard == []


@pytest.mark.parametrize(
    "prepare", [lambda _: None, lambda connection: connection.sendall(b"\x16\x03\x03")]
)
def test_a_handshake_that_does_not_end_is_given_up(
    entrance: ClientEntrance, prepare: Callable[[socket.socket], None]
) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as listening:
        accepted: list[socket.socket] = []

        def accept() -> None:
            accepted.append(listening.accept()[0])
            prepare(accepted[0])

        thread = threading.Thread(target=accept)
        thread.start()
        with pytest.raises(NoAnswer, match="no answer in time"):
            connected(listening.getsockname()[1], entrance, timeout_s=0.2)
        thread.join(10)
        accepted[0].close()


@pytest.mark.parametrize("sent", [b"", b"\x16\x03\x03\x00\x05"])
def test_a_connection_that_ends_in_its_handshake_may_be_made_again(
    entrance: ClientEntrance, sent: bytes
) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as listening:

        def accept() -> None:
            connection, _ = listening.accept()
            connection.recv(5)  # and so the end is a reset, or not
            connection.sendall(sent)
            connection.close()

        thread = threading.Thread(target=accept)
        thread.start()
        with pytest.raises(NoAnswer):
            connected(listening.getsockname()[1], entrance)
        thread.join(10)


def test_a_connection_that_ends_later_may_be_made_again(
    server: ssl.SSLContext, entrance: ClientEntrance
) -> None:
    peer = Peer(server, authenticate=let_in())
    peer.answers[HEARTBEAT.key] = b""  # an end without a word of TLS
    with peer.listening() as port, closing(connected(port, entrance)) as connection:
        with pytest.raises(NoAnswer):
            connection.ask(HEARTBEAT, HeartbeatRequest(group_id="g"))
        with pytest.raises(NoAnswer):
            connection.ask(HEARTBEAT, HeartbeatRequest(group_id="g"))
