"""Bytes that are no request: each ends its own connection with one log line, and nothing else."""

import random
import struct
from typing import Any

import pytest

from tailrace.protocol.kafka.api import Api
from tailrace.protocol.kafka.apis import API_VERSIONS, APIS, FETCH, METADATA, PRODUCE
from tailrace.protocol.kafka.header import RequestHeader, encode_request_header
from tailrace.protocol.kafka.messages.api_versions import ApiVersionsRequest
from tests.cluster.raw import (
    Closed,
    RawClient,
    ask_api_versions,
    batch,
    create_topic,
    fetch_request,
    produce_request,
)
from tests.cluster.watching import lines_about, settle
from tests.process import TailraceProcess

_LIMIT = 104_857_600


def _framed(payload: bytes) -> bytes:
    return len(payload).to_bytes(4, "big", signed=True) + payload


def _header(key: int, version: int) -> bytes:
    return struct.pack(">hhih", key, version, 7, 1) + b"c"


def _body(api: Api[Any, Any], version: int, body: bytes) -> bytes:
    header = RequestHeader(api.key, version, 7, "c")
    return _framed(encode_request_header(api, header) + body)


_NO_TOPICS = b"\x01\x00\x00\x00"  # and three booleans; what follows are tagged fields

BAD: dict[str, bytes] = {
    "a size of -1": b"\xff\xff\xff\xff",
    "the smallest size": b"\x80\x00\x00\x00",
    "one byte too large": struct.pack(">i", _LIMIT + 1) + bytes(64),
    "the largest size": b"\x7f\xff\xff\xff" + bytes(64),
    "HTTP": b"GET / HTTP/1.1\r\nHost: broker\r\n\r\n",
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(64),
    "an empty frame": _framed(b""),
    "half a header": _framed(b"\x00\x12\x00\x00\x00\x00\x00"),
    "a client id of length -2": _framed(struct.pack(">hhih", 18, 0, 7, -2)),
    "a client id that is cut": _framed(struct.pack(">hhih", 18, 0, 7, 100) + b"short"),
    "a client id that is not UTF-8": _framed(struct.pack(">hhih", 18, 0, 7, 2) + b"\xff\xfe"),
    "header tags that are cut": _framed(_header(18, 3) + b"\x01\x00\x7f"),
    "a million header tags": _framed(_header(18, 3) + b"\xc0\x84\x3d"),
    "an unknown API": _framed(_header(9999, 0)),
    "a negative API": _framed(_header(-1, 0)),
    "an API that is not here": _framed(_header(26, 3) + bytes(20)),
    "a version above": _framed(_header(METADATA.key, 99) + bytes(20)),
    "a negative version": _framed(_header(METADATA.key, -1) + bytes(20)),
    "Produce v2": _framed(_header(PRODUCE.key, 2) + bytes(20)),
    "Fetch v3": _framed(_header(FETCH.key, 3) + bytes(40)),
    "no body": _body(METADATA, 1, b""),
    "two billion topics": _body(METADATA, 1, b"\x7f\xff\xff\xff" + bytes(100)),
    "four billion topics": _body(METADATA, 9, b"\xff\xff\xff\xff\x0f" + bytes(100)),
    "a quarter of a million topics": _body(
        METADATA, 1, struct.pack(">i", 1 << 18) + b"\x00\x01t" * (1 << 18)
    ),
    "-2 topics": _body(METADATA, 1, b"\xff\xff\xff\xfe"),
    "a topic of length -7": _body(METADATA, 1, b"\x00\x00\x00\x01\xff\xf9"),
    "null as a topic": _body(METADATA, 1, b"\x00\x00\x00\x01\xff\xff"),
    "a topic that is not UTF-8": _body(METADATA, 1, b"\x00\x00\x00\x01\x00\x02\xc3\x28"),
    "an endless number": _body(METADATA, 9, b"\xff" * 40),
    "a billion tagged fields": _body(METADATA, 9, _NO_TOPICS + b"\xff\xff\xff\xff\x03"),
    "a tagged field that is cut": _body(METADATA, 9, _NO_TOPICS + b"\x01\x05\x7f"),
    "records of length -2": _body(
        PRODUCE, 3,
        b"\xff\xff\xff\xff\x00\x00\x03\xe8\x00\x00\x00\x01\x00\x01t\x00\x00\x00\x01"
        b"\x00\x00\x00\x00\xff\xff\xff\xfe",
    ),
    "records that are cut": _body(
        PRODUCE, 3,
        b"\xff\xff\xff\xff\x00\x00\x03\xe8\x00\x00\x00\x01\x00\x01t\x00\x00\x00\x01"
        b"\x00\x00\x00\x00\x05\xf5\xe1\x00" + bytes(100),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_bad_bytes_close_their_connection_with_one_line(
    hostile: TailraceProcess, name: str
) -> None:
    with RawClient(hostile) as client:
        client.send_bytes(BAD[name])
        assert client.is_closed_by_broker()
    lines = lines_about(hostile, client)
    assert len(lines) == 1, lines
    assert "connection closed" in lines[0]
    assert len(lines[0]) < 400


def test_answers_before_a_bad_frame_still_come(hostile: TailraceProcess) -> None:
    with RawClient(hostile) as client:
        good = client.frame(API_VERSIONS, 0, ApiVersionsRequest())
        client.send_bytes(good + BAD["an unknown API"])
        correlation_id, answer = client.receive_as(API_VERSIONS, 0)
        assert correlation_id == 1
        assert answer.error_code == 0
        assert client.is_closed_by_broker()


def test_a_request_cut_anywhere(hostile: TailraceProcess, topic: str) -> None:
    """The size says how much there is, so a shorter body is damage; no answer, no append."""
    create_topic(hostile, topic)
    for api, version, message in (
        (PRODUCE, 9, produce_request(topic, batch(b"v"))),
        (FETCH, 12, fetch_request(topic)),
    ):
        with RawClient(hostile) as client:
            whole = client.frame(api, version, message)[4:]
        for length in range(len(whole)):
            with RawClient(hostile) as client:
                client.send_bytes(_framed(whole[:length]))
                assert client.is_closed_by_broker(), f"{api.name} cut to {length} bytes"


def test_a_connection_cut_anywhere(hostile: TailraceProcess, topic: str) -> None:
    """A client that goes in the middle of its frame leaves nothing behind, no line either."""
    create_topic(hostile, topic)
    with RawClient(hostile) as client:
        whole = client.frame(PRODUCE, 9, produce_request(topic, batch(b"v")))
    start = settle(hostile) + 1
    for length in range(len(whole)):
        with RawClient(hostile) as client:
            client.send_bytes(whole[:length])
    lines = hostile.lines[start : settle(hostile)]
    assert [line for line in lines if "connection" in line] == []


def test_a_frame_byte_by_byte(hostile: TailraceProcess) -> None:
    with RawClient(hostile) as client:
        for byte in client.frame(API_VERSIONS, 3, _named()):
            client.send_bytes(bytes([byte]))
        _, answer = client.receive_as(API_VERSIONS, 3)
    assert answer.error_code == 0


def test_random_bytes(hostile: TailraceProcess) -> None:
    """Whatever it is: closed, answered, or waited for; never more than the one connection."""
    seed = random.SystemRandom().randrange(1 << 32)
    source = random.Random(seed)
    for _ in range(100):
        with RawClient(hostile) as client:
            try:
                client.send_bytes(source.randbytes(source.randrange(1, 300)))
            except Closed:
                continue
    for _ in range(100):
        with RawClient(hostile) as client:
            client.send_bytes(_framed(source.randbytes(source.randrange(300))))
            assert client.is_closed_by_broker(), f"seed {seed}"  # no API below 256 comes by chance


def test_random_bodies_behind_good_headers(hostile: TailraceProcess) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    source = random.Random(seed)
    for api in APIS.values():
        for version in api.versions:
            header = encode_request_header(api, RequestHeader(api.key, version, 7, "c"))
            with RawClient(hostile) as client:
                client.send_bytes(_framed(header + source.randbytes(source.randrange(60))))
    assert ask_api_versions(hostile).error_code == 0, f"seed {seed}"


@pytest.mark.parametrize("version", [5, 99, 32767, -1])
def test_an_unknown_version_of_api_versions_is_told_the_known_ones(
    hostile: TailraceProcess, version: int
) -> None:
    """KIP-511: the body of v0, error 35, and the range of ApiVersions; then the client retries."""
    with RawClient(hostile) as client:
        client.send_bytes(_framed(_header(API_VERSIONS.key, version) + b"\x00\xff garbage"))
        correlation_id, answer = client.receive_as(API_VERSIONS, 0)
        assert correlation_id == 7
        assert answer.error_code == 35
        assert [(e.api_key, e.min_version, e.max_version) for e in answer.api_keys] == [(18, 0, 4)]
        assert client.ask(API_VERSIONS, 4, _named()).error_code == 0


@pytest.mark.parametrize("name", ["", "-", "a b", "name\n", "x" * 1000 + "!"])
def test_a_client_software_name_that_is_none(hostile: TailraceProcess, name: str) -> None:
    request = ApiVersionsRequest(client_software_name=name, client_software_version="1")
    with RawClient(hostile) as client:
        assert client.ask(API_VERSIONS, 3, request).error_code == 42


def test_bytes_behind_a_request_are_ignored(hostile: TailraceProcess) -> None:
    header = encode_request_header(API_VERSIONS, RequestHeader(18, 0, 7, "c"))
    with RawClient(hostile) as client:
        client.send_bytes(_framed(header + b"behind"))
        assert client.receive_as(API_VERSIONS, 0)[1].error_code == 0


def _named() -> ApiVersionsRequest:
    return ApiVersionsRequest(client_software_name="raw", client_software_version="1.0")
