"""ApiVersions v0-4: what is spoken here, which is what has a handler.

An unsupported version never gets here: the connection answers it (v0 body, error 35) before the
body is read. Features: those of `cluster/features.py`; what is finalized there, clients use.
Source: ApiVersionsRequest.isValid, KafkaApis.handleApiVersionsRequest; reference Kafka 2.3.
"""

import re
from collections.abc import Mapping

from tailrace.broker.cluster.features import FEATURES, Feature
from tailrace.broker.context import RequestContext
from tailrace.broker.handlers import HANDLERS, handles
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.kafka.apis import API_VERSIONS
from tailrace.protocol.kafka.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

SOFTWARE_SINCE = 3
LEVEL_0_SINCE = 4
"""Clients of earlier versions cannot read a feature that may be at level 0 (KAFKA-17492)."""
FEATURES_EPOCH = 0
"""Levels never change while brokers run."""

_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9.-]*[a-zA-Z0-9])?")


@handles(API_VERSIONS)
def api_versions(ctx: RequestContext, request: ApiVersionsRequest) -> ApiVersionsResponse:
    """List the APIs; a client software name or version that is none gets INVALID_REQUEST."""
    if ctx.header.api_version >= SOFTWARE_SINCE and not (
        _SOFTWARE.fullmatch(request.client_software_name)
        and _SOFTWARE.fullmatch(request.client_software_version)
    ):
        return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
    response = ApiVersionsResponse(
        api_keys=[
            ApiVersion(
                api_key=key,
                min_version=HANDLERS[key].api.advertised.start,
                max_version=HANDLERS[key].api.advertised.stop - 1,
            )
            for key in sorted(HANDLERS)
        ]
    )
    tell_features(response, ctx.header.api_version, FEATURES)
    return response


def tell_features(
    response: ApiVersionsResponse, version: int, features: Mapping[str, Feature]
) -> None:
    """Put the features into an answer as a version can carry them."""
    response.supported_features = [
        SupportedFeatureKey(name=name, min_version=each.min_level, max_version=each.max_level)
        for name, each in features.items()
        if each.min_level > 0 or version >= LEVEL_0_SINCE
    ]
    response.finalized_features = [
        FinalizedFeatureKey(
            name=name, max_version_level=each.finalized, min_version_level=each.finalized
        )
        for name, each in features.items()
        if each.finalized
    ]
    if response.finalized_features:
        response.finalized_features_epoch = FEATURES_EPOCH
