"""The hand-made request, read by the codec of the broker."""

import socket
import struct

from tailrace.protocol.kafka.apis import METADATA
from tailrace.protocol.kafka.codec import decode_request
from tailrace.protocol.kafka.header import decode_request_header
from tailrace.testing.metadata import answers, names_a_broker, request

_ID = request()[8:12]


def test_it_asks_for_no_topics() -> None:
    frame = memoryview(request())[4:]
    assert len(frame) == struct.unpack(">i", request()[:4])[0]
    header, start = decode_request_header(frame)
    assert (header.api_key, header.api_version) == (METADATA.key, 1)
    assert decode_request(METADATA, 1, frame[start:]).topics == ()


def test_what_counts_as_an_answer() -> None:
    assert names_a_broker(_ID + struct.pack(">i", 1))
    assert not names_a_broker(_ID + struct.pack(">i", 0))
    assert not names_a_broker(bytes(4) + struct.pack(">i", 1))
    assert not names_a_broker(_ID)


def test_who_does_not_answer_is_not_ready() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        assert not answers("127.0.0.1", port, 0.05)
    assert not answers("127.0.0.1", port, 0.05)
