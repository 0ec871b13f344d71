"""ApiVersions v0-4: what is spoken here, which is what has a handler.

An unsupported version never gets here: the connection answers it (v0 body, error 35) before the
body is read. Features: none are finalized, so clients keep to what needs none (no TV2).
Source: ApiVersionsRequest.isValid, KafkaApis.handleApiVersionsRequest; reference Kafka 2.3.
"""

import re

from broker.context import RequestContext
from broker.handlers import HANDLERS, handles
from protocol.errors import ErrorCode
from protocol.kafka.apis import API_VERSIONS
from protocol.kafka.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
)

SOFTWARE_SINCE = 3

_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9.-]*[a-zA-Z0-9])?")


@handles(API_VERSIONS)
def api_versions(ctx: RequestContext, request: ApiVersionsRequest) -> ApiVersionsResponse:
    """List the APIs; a client software name or version that is none gets INVALID_REQUEST."""
    if ctx.header.api_version >= SOFTWARE_SINCE and not (
        _SOFTWARE.fullmatch(request.client_software_name)
        and _SOFTWARE.fullmatch(request.client_software_version)
    ):
        return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
    return ApiVersionsResponse(
        api_keys=[
            ApiVersion(
                api_key=key,
                min_version=HANDLERS[key].api.advertised.start,
                max_version=HANDLERS[key].api.advertised.stop - 1,
            )
            for key in sorted(HANDLERS)
        ]
    )
