"""Request and response headers, and whole response frames.

Request v1: api key, version, correlation id, nullable client id (int16 length even in flexible
versions); v2 adds tagged fields. Response v0: correlation id; v1 adds tagged fields. ApiVersions
answers with v0 always, because its reader does not know yet what the broker speaks.
Source: Kafka RequestHeader.json, ResponseHeader.json; reference/kafka.md 2.2.
"""

from struct import Struct
from struct import error as struct_error
from typing import Any, Final, TypeVar

import msgspec

from tailrace.protocol.errors import BadLength, BadValue, BufferUnderflow, UnsupportedVersion
from tailrace.protocol.ids import Buffer
from tailrace.protocol.kafka.api import Api
from tailrace.protocol.kafka.apis import API_VERSIONS, APIS
from tailrace.protocol.kafka.codec import encode_response, encode_response_steps
from tailrace.protocol.kafka.primitives import Source
from tailrace.protocol.kafka.steps import Steps
from tailrace.protocol.kafka.wire import skip_tagged

R = TypeVar("R")

_REQUEST: Final = Struct(">hhih")  # key, version, correlation id, length of the client id
_REQUEST_SIZE: Final = _REQUEST.size
_PREFIX: Final = Struct(">hhi")
_RESPONSE: Final = Struct(">ii")  # size, correlation id


class RequestHeader(msgspec.Struct, frozen=True, gc=False):
    """Who asks what, in which version."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None


class UnsupportedRequest(UnsupportedVersion):
    """A request whose body cannot be read; `header` tells what to answer, if there is an answer."""

    def __init__(self, header: RequestHeader) -> None:
        super().__init__(f"API {header.api_key} v{header.api_version}")
        self.header = header


def decode_request_header(frame: memoryview) -> tuple[RequestHeader, int]:
    """Read a request's header; return it with the place where the body begins.

    Errors: DecodeError; UnsupportedRequest for an API or version that is not spoken, which gets an
    answer for ApiVersions only (v0 body, error 35); Kafka closes the connection for all others.
    """
    try:
        key, version, correlation_id, length = _REQUEST.unpack_from(frame)
    except struct_error:
        raise BufferUnderflow(f"request header of {len(frame)} bytes") from None
    at = _REQUEST_SIZE
    client_id = None
    if length >= 0:
        at += length
        if at > len(frame):
            raise BufferUnderflow(f"client id of {length} bytes")
        try:
            client_id = str(frame[_REQUEST_SIZE:at], "utf-8")
        except UnicodeDecodeError as error:
            raise BadValue("client id is not UTF-8") from error
    elif length != -1:
        raise BadLength(f"client id of {length} bytes")
    header = RequestHeader(key, version, correlation_id, client_id)
    api = APIS.get(key)
    if api is None or version not in api.versions:
        raise UnsupportedRequest(header)
    if version >= api.flexible_since:
        at = _skip_tags(frame, at)
    return header, at


def encode_request_header(api: Api[Any, Any], header: RequestHeader) -> bytes:
    """Return the header in the layout that this version of the API has."""
    prefix = _PREFIX.pack(header.api_key, header.api_version, header.correlation_id)
    name = header.client_id
    encoded = b"" if name is None else name.encode()
    length = -1 if name is None else len(encoded)
    tags = b"\0" if api.flexible(header.api_version) else b""
    return prefix + length.to_bytes(2, "big", signed=True) + encoded + tags


def request_frame(api: Api[R, Any], header: RequestHeader, body: bytes) -> bytes:
    """Return size prefix, header and body: what a client sends."""
    payload = encode_request_header(api, header) + body
    return len(payload).to_bytes(4, "big") + payload


def response_frame(api: Api[Any, R], version: int, correlation_id: int, message: R) -> list[Buffer]:
    """Return a whole response for `transport.writelines`: size prefix, header, body.

    Cost: record bytes in the message are passed through, not copied; the size counts them.
    """
    return _framed(api, version, correlation_id, encode_response(api, version, message))


def response_frame_steps(
    api: Api[Any, R], version: int, correlation_id: int, message: R
) -> Steps[list[Buffer]]:
    """Return the same in steps: a response may be long."""
    body = yield from encode_response_steps(api, version, message)
    return _framed(api, version, correlation_id, body)


def _framed(
    api: Api[Any, Any], version: int, correlation_id: int, body: list[Buffer]
) -> list[Buffer]:
    size = 4
    for part in body:
        size += len(part)
    if version < api.flexible_since or api is API_VERSIONS:
        head = _RESPONSE.pack(size, correlation_id)
    else:
        head = _RESPONSE.pack(size + 1, correlation_id) + b"\0"
    return [head, *body]


def decode_response_header(api: Api[Any, Any], version: int, frame: memoryview) -> tuple[int, int]:
    """Read a response's header; return the correlation id and where the body begins."""
    if len(frame) < 4:
        raise BufferUnderflow(f"response header of {len(frame)} bytes")
    correlation_id = int.from_bytes(frame[:4], "big", signed=True)
    tagged = api.flexible(version) and api is not API_VERSIONS
    return correlation_id, _skip_tags(frame, 4) if tagged else 4


def _skip_tags(frame: memoryview, at: int) -> int:
    """Return where the tagged fields that begin at `at` end; the usual case is "none": one zero."""
    if at < len(frame) and frame[at] == 0:
        return at + 1
    source = Source(frame)
    source.at = at
    skip_tagged(source)
    return source.at
