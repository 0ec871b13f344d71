"""A blocking connection against a peer that answers in every way but the right one."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress

import pytest

from tailrace.core.runtime.kafka_connection import (
    STRANGER_BYTES_MAX,
    KafkaConnection,
    NoAnswer,
    NotKafka,
    NotServed,
)
from tailrace.protocol.kafka.apis import API_VERSIONS, LIST_OFFSETS, METADATA
from tailrace.protocol.kafka.codec import encode_response
from tailrace.protocol.kafka.messages.api_versions import ApiVersion, ApiVersionsResponse
from tailrace.protocol.kafka.messages.metadata import MetadataRequest

Answer = Callable[[socket.socket, bytes], None]
"""Answers a request, given whole."""


@contextmanager
def peer(*answers: Answer) -> Iterator[int]:
    """Listen, answer so many requests of one connection, and wait for its end."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listening:

        def serve() -> None:
            connection, _ = listening.accept()
            with closing(connection):
                for answer in answers:
                    answer(connection, _request(connection))
                with suppress(ConnectionResetError):  # who closes with unread bytes resets
                    while connection.recv(1000):
                        pass

        thread = threading.Thread(target=serve)
        thread.start()
        yield listening.getsockname()[1]
        thread.join(10)
        assert not thread.is_alive()


def _request(connection: socket.socket) -> bytes:
    size = int.from_bytes(connection.recv(4, socket.MSG_WAITALL), "big")
    return connection.recv(size, socket.MSG_WAITALL)


def _versions(request: bytes) -> bytes:
    served = [
        ApiVersion(api_key=METADATA.key, min_version=0, max_version=1),
        ApiVersion(api_key=API_VERSIONS.key, min_version=0, max_version=0),
    ]
    answer = ApiVersionsResponse(error_code=0, api_keys=served)
    body = b"".join([request[4:8], *encode_response(API_VERSIONS, 0, answer)])
    return len(body).to_bytes(4, "big") + body


def versions(connection: socket.socket, request: bytes) -> None:
    connection.sendall(_versions(request))


def byte_by_byte(connection: socket.socket, request: bytes) -> None:
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for byte in _versions(request):
        connection.sendall(bytes([byte]))


def says(data: bytes) -> Answer:
    return lambda connection, _: connection.sendall(data)


def ends(connection: socket.socket, _: bytes) -> None:
    connection.shutdown(socket.SHUT_WR)


def connected(port: int, timeout_s: float = 10) -> KafkaConnection:
    return KafkaConnection("127.0.0.1", port, timeout_s, "test")


@pytest.mark.parametrize("answer", [versions, byte_by_byte])
def test_the_highest_version_of_both_is_spoken(answer: Answer) -> None:
    with peer(answer) as port, closing(connected(port)) as connection:
        assert connection.version(METADATA) == 1
        with pytest.raises(NotServed, match="does not serve ListOffsets in version"):
            connection.version(LIST_OFFSETS)
        with pytest.raises(NotServed):
            connection.version(METADATA, -1)


@pytest.mark.parametrize(
    ("answer", "error", "text"),
    [
        (says(b""), NoAnswer, "no answer in time"),
        (says(b"\x00\x00\x00\x09half"), NoAnswer, "no answer in time"),
        (ends, NoAnswer, "the broker closed the connection"),
        (says(b"HTTP/1.1 400"), NotKafka, "an answer of 1213486160 bytes"),
        (says(b"\xff\xff\xff\xff"), NotKafka, "an answer of -1 bytes"),
        (says((STRANGER_BYTES_MAX + 1).to_bytes(4, "big")), NotKafka, "an answer of 1048577 b"),
        (says(b"\x00\x00\x00\x0a\x00\x00\x00\x07\x00\x00\x00\x00\x00\x00"), NotKafka, "request 7"),
        (says(b"\x00\x00\x00\x05\x00\x00\x00\x01\x00"), NotKafka, "no answer in Kafka's protocol"),
    ],
)
def test_what_is_no_answer_is_said(answer: Answer, error: type[Exception], text: str) -> None:
    with peer(answer) as port:
        with pytest.raises(error, match=text) as caught:
            connected(port, timeout_s=0.3 if "in time" in text else 10)
        assert str(caught.value).startswith(f"127.0.0.1:{port}: ")


def test_nobody_listens() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(NoAnswer, match="Connection refused"):
        connected(port)


def test_closing_ends_the_wait_of_another_thread() -> None:
    asked = threading.Event()
    with peer(versions, lambda *_: asked.set()) as port:
        connection = connected(port)
        closer = threading.Thread(target=lambda: (asked.wait(10), connection.close()))
        closer.start()
        with pytest.raises(NoAnswer):
            connection.ask(METADATA, MetadataRequest(topics=[]))
        closer.join(10)
        connection.close()
