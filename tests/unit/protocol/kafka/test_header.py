"""Headers by hand equal their schema; whole frames; what an unsupported request still tells."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.protocol.errors import (
    BadLength,
    BadValue,
    BufferUnderflow,
    DecodeError,
    UnsupportedVersion,
)
from tailrace.protocol.kafka import header as h
from tailrace.protocol.kafka import wire
from tailrace.protocol.kafka.apis import API_VERSIONS, APIS, FETCH, METADATA, PRODUCE
from tailrace.protocol.kafka.codec import decode_response
from tailrace.protocol.kafka.messages import headers
from tailrace.protocol.kafka.messages.api_versions import ApiVersion, ApiVersionsResponse
from tailrace.protocol.kafka.messages.fetch import (
    FetchableTopicResponse,
    FetchResponse,
    PartitionData,
)
from tests.unit.protocol.kafka.samples import values

VERSIONS = [(api, version) for api in APIS.values() for version in api.versions]


def schema_bytes(message: headers.RequestHeader, *, flexible: bool) -> bytes:
    return wire.join(wire.encode(message, 2 if flexible else 1, flexible=flexible))


@given(
    which=st.sampled_from(VERSIONS),
    correlation_id=st.integers(-(2**31), 2**31 - 1),
    client_id=st.none() | st.text(st.characters(codec="utf-8"), max_size=20),
    body=st.binary(max_size=8),
)
def test_request_header_is_its_schema(
    which: tuple[h.Api[object, object], int],
    correlation_id: int,
    client_id: str | None,
    body: bytes,
) -> None:
    api, version = which
    ours = h.RequestHeader(api.key, version, correlation_id, client_id)
    schema = headers.RequestHeader(
        request_api_key=api.key,
        request_api_version=version,
        correlation_id=correlation_id,
        client_id=client_id,
    )
    encoded = schema_bytes(schema, flexible=api.flexible(version))
    assert h.encode_request_header(api, ours) == encoded
    assert h.decode_request_header(memoryview(encoded + body)) == (ours, len(encoded))
    frame = h.request_frame(api, ours, body)
    assert frame == len(encoded + body).to_bytes(4, "big") + encoded + body
    for length in range(len(encoded)):
        with pytest.raises(DecodeError):
            h.decode_request_header(memoryview(encoded[:length]))


@given(
    data=st.binary(max_size=40)
    | values(headers.RequestHeader, 1).map(lambda m: schema_bytes(m, flexible=False))
)
def test_random_bytes_give_a_header_or_a_protocol_error(data: bytes) -> None:
    try:
        h.decode_request_header(memoryview(data))
    except (DecodeError, h.UnsupportedRequest):
        return


@pytest.mark.parametrize("tags", ["00", "010702abcd", "0200000100"])
def test_tagged_fields_of_a_header_are_skipped(tags: str) -> None:
    frame = bytes.fromhex("0003000900000007ffff" + tags) + b"body"
    found, at = h.decode_request_header(memoryview(frame))
    assert found == h.RequestHeader(METADATA.key, 9, 7, None)
    assert frame[at:] == b"body"


@pytest.mark.parametrize(
    ("frame", "error"),
    [
        ("", BufferUnderflow),
        ("0003000100000007", BufferUnderflow),
        ("0003000100000007fffe", BadLength),
        ("0003000100000007000261", BufferUnderflow),
        ("00030001000000070002c328", BadValue),
        ("0003000900000007ffff", BufferUnderflow),
        ("0003000900000007ffff0201000100", BadLength),
        ("0003000900000007ffff010105", BufferUnderflow),
    ],
)
def test_bad_headers_are_refused(frame: str, error: type[DecodeError]) -> None:
    with pytest.raises(error):
        h.decode_request_header(memoryview(bytes.fromhex(frame)))


@pytest.mark.parametrize(
    ("key", "version"), [(18, 5), (18, -1), (18, 32767), (0, 2), (0, 14), (4, 0), (-1, 0), (999, 1)]
)
def test_an_unsupported_request_carries_its_header(key: int, version: int) -> None:
    frame = (
        key.to_bytes(2, "big", signed=True)
        + version.to_bytes(2, "big", signed=True)
        + bytes.fromhex("0000000700026d65")
        + b"whatever a later version has"
    )
    with pytest.raises(UnsupportedVersion) as caught:
        h.decode_request_header(memoryview(frame))
    assert isinstance(caught.value, h.UnsupportedRequest)
    assert caught.value.header == h.RequestHeader(key, version, 7, "me")


@pytest.mark.parametrize(("api", "version"), VERSIONS, ids=[f"{a.name}-{v}" for a, v in VERSIONS])
def test_response_frames_are_whole(api: h.Api[object, object], version: int) -> None:
    response = api.response()
    frame = wire.join(h.response_frame(api, version, 77, response))
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    payload = memoryview(frame)[4:]
    correlation_id, at = h.decode_response_header(api, version, payload)
    assert correlation_id == 77
    header_version = 1 if api.flexible(version) and api is not API_VERSIONS else 0
    schema = headers.ResponseHeader(correlation_id=77)
    encoded = wire.encode(schema, header_version, flexible=header_version == 1)
    assert payload[:at] == wire.join(encoded)
    assert decode_response(api, version, payload[at:]) == response


def test_an_unsupported_api_versions_gets_a_v0_body() -> None:
    keys = (ApiVersion(api_key=18, min_version=0, max_version=4),)
    response = ApiVersionsResponse(error_code=35, api_keys=keys)
    frame = wire.join(h.response_frame(API_VERSIONS, 0, 7, response))
    assert frame.hex() == "0000001000000007002300000001001200000004"


def test_record_bytes_pass_through_a_frame_and_the_size_counts_them() -> None:
    batch = memoryview(bytes(100_000))
    data = PartitionData(records=[batch, batch])
    topic = FetchableTopicResponse(topic="t", topic_id=bytes(16), partitions=(data,))
    for version in FETCH.versions:
        parts = h.response_frame(FETCH, version, 1, FetchResponse(responses=(topic,)))
        assert sum(part is batch for part in parts) == 2
        assert int.from_bytes(bytes(parts[0][:4]), "big") == sum(map(len, parts)) - 4


def test_a_short_response_header_is_refused() -> None:
    with pytest.raises(BufferUnderflow):
        h.decode_response_header(PRODUCE, 3, memoryview(b"abc"))
    with pytest.raises(BufferUnderflow):
        h.decode_response_header(PRODUCE, 9, memoryview(b"abcd"))
