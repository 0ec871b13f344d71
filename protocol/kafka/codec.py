"""Bodies of requests and responses: bytes <-> messages, by the table of APIs.

Errors: UnsupportedVersion for a version that is not in the table, DecodeError for bytes that are no
such message.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.ids import Buffer
from tailrace.protocol.kafka import hot_fetch, hot_produce, steps, wire
from tailrace.protocol.kafka.api import Api
from tailrace.protocol.kafka.apis import API_VERSIONS, FETCH, PRODUCE
from tailrace.protocol.kafka.messages.api_versions import ApiVersionsResponse
from tailrace.protocol.kafka.messages.fetch import FetchResponse
from tailrace.protocol.kafka.messages.produce import ProduceResponse, TopicProduceResponse
from tailrace.protocol.kafka.primitives import ELEMENTS_MAX
from tailrace.protocol.kafka.steps import Steps

Request = TypeVar("Request")
Response = TypeVar("Response")


def _for_any_client(_version: int, response: ApiVersionsResponse) -> list[Buffer] | None:
    """Encode an ApiVersions that is refused for its version as v0, as clients expect (KIP-511)."""
    if response.error_code != ErrorCode.UNSUPPORTED_VERSION:
        return None
    return wire.encode(response, 0, flexible=False)


PARTITIONS_AT_ONCE: Final = 500
"""Partitions of an answer that are written in one step."""
UNUSUAL_ELEMENTS_MAX: Final = 1_000
"""Elements of a Produce that its hand-tuned codec declines: 30 us for each, in one go as well."""

# What the hand-tuned codecs decline (None), the construct does.
_HOT_DECODE: Final[Mapping[int, Callable[[int, memoryview], Any]]] = {
    PRODUCE.key: hot_produce.decode_request,
    FETCH.key: hot_fetch.decode_request,
}
_HOT_ENCODE: Final[Mapping[int, Callable[[int, Any], list[Buffer] | None]]] = {
    PRODUCE.key: hot_produce.encode_response,
    FETCH.key: hot_fetch.encode_response,
    API_VERSIONS.key: _for_any_client,
}


def decode_request(api: Api[Request, Any], version: int, body: memoryview) -> Request:
    """Decode the body of a request; bytes behind it are ignored, as Kafka does.

    Errors: UnsupportedVersion, DecodeError. Cost: records are slices of `body`.
    """
    if version not in api.versions:
        api.check(version)
    hot = _HOT_DECODE.get(api.key)
    message: Request | None = hot(version, body) if hot else None
    if message is None:
        most = UNUSUAL_ELEMENTS_MAX if api is PRODUCE else ELEMENTS_MAX
        message = wire.decode(
            api.request, version, body, flexible=api.flexible(version), elements_max=most
        )
    return message


def decode_request_steps(api: Api[Request, Any], version: int, body: memoryview) -> Steps[Request]:
    """Decode the body of a request that may be long, in steps. Errors: as `decode_request`."""
    api.check(version)
    message: Request = yield from steps.decode(
        api.request, version, body, flexible=api.flexible(version)
    )
    return message


def decode_response(api: Api[Any, Response], version: int, body: Buffer) -> Response:
    """Decode the body of a response. Errors: UnsupportedVersion, DecodeError."""
    api.check(version)
    return wire.decode(api.response, version, body, flexible=api.flexible(version))


def encode_request(api: Api[Request, Any], version: int, message: Request) -> bytes:
    """Encode the body of a request. Errors: UnsupportedVersion; ValueError is our own bug."""
    api.check(version)
    return wire.join(wire.encode(message, version, flexible=api.flexible(version)))


def encode_response(api: Api[Any, Response], version: int, message: Response) -> list[Buffer]:
    """Encode the body of a response: buffers in order, record bytes as they were given.

    Errors: UnsupportedVersion; ValueError is our own bug.
    """
    if version not in api.versions:
        api.check(version)
    hot = _HOT_ENCODE.get(api.key)
    parts = hot(version, message) if hot else None
    if parts is None:
        parts = wire.encode(message, version, flexible=api.flexible(version))
    return parts


def encode_response_steps(
    api: Api[Any, Response], version: int, message: Response
) -> Steps[list[Buffer]]:
    """Encode the body of a response that may be long, in steps. Errors: as `encode_response`."""
    api.check(version)
    hot = _HOT_ENCODE.get(api.key)
    if isinstance(message, FetchResponse | ProduceResponse) and is_long(message):
        hot = None
    parts = hot(version, message) if hot else None
    if parts is None:
        parts = yield from steps.encode(message, version, flexible=api.flexible(version))
    return parts


def is_long(answer: FetchResponse | ProduceResponse) -> bool:
    """Whether an answer of a hand-tuned codec is too long to be written in one step."""
    left = PARTITIONS_AT_ONCE
    for topic in answer.responses:
        if isinstance(topic, TopicProduceResponse):
            left -= 1 + len(topic.partition_responses)
        else:
            left -= 1 + len(topic.partitions)
        if left < 0:
            return True
    return False
