"""Answers to requests that were not carried out: of an unknown version, or failed whole. Pure."""

import dataclasses
from typing import Any

from tailrace.broker.errors import KafkaError, error_code
from tailrace.core.errors import CoreError
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.ids import Buffer
from tailrace.protocol.kafka.api import Api
from tailrace.protocol.kafka.apis import API_VERSIONS
from tailrace.protocol.kafka.header import RequestHeader, response_frame
from tailrace.protocol.kafka.messages.api_versions import ApiVersion, ApiVersionsResponse


def unsupported_frame(header: RequestHeader) -> list[Buffer] | None:
    """Return what tells a client which ApiVersions are spoken; None for any other API.

    Kafka closes the connection of all others. Source: KIP-511.
    """
    if header.api_key != API_VERSIONS.key:
        return None
    spoken = API_VERSIONS.advertised
    response = ApiVersionsResponse(
        error_code=ErrorCode.UNSUPPORTED_VERSION,
        api_keys=(
            ApiVersion(
                api_key=API_VERSIONS.key, min_version=spoken.start, max_version=spoken.stop - 1
            ),
        ),
    )
    return response_frame(API_VERSIONS, 0, header.correlation_id, response)


def error_response(api: Api[Any, Any], version: int, error: KafkaError | CoreError) -> Any | None:
    """Return a response that says only the error; None if that version has no place for it."""
    for field in dataclasses.fields(api.response):
        if field.name == "error_code" and field.metadata["wire"].present(version):
            return api.response(error_code=error_code(error))
    return None
