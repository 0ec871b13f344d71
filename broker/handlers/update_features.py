"""UpdateFeatures, API 57, v0-2: all updates of a request, or none.

Kept: Kafka's checks and its one top-level error for the first that fails; up to v1 a result for
each feature. Levels are fixed (`cluster/features.py`), so only what holds can be asked for.
Source: FeatureControlManager.updateFeatures; a Kafka 4.3.1.
"""

from tailrace.broker.authorization.required import WHY
from tailrace.broker.cluster.features import SAFE_DOWNGRADE, UPGRADE, check_update
from tailrace.broker.context import RequestContext
from tailrace.broker.errors import KafkaError
from tailrace.broker.handlers import handles
from tailrace.core.access.acls.model import Operation
from tailrace.protocol.kafka.apis import UPDATE_FEATURES
from tailrace.protocol.kafka.messages.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)


@handles(UPDATE_FEATURES)
async def update_features(
    ctx: RequestContext, request: UpdateFeaturesRequest
) -> UpdateFeaturesResponse:
    """Check every update; the first that cannot be made is the answer."""
    if code := ctx.cluster_refusal(Operation.ALTER):
        return UpdateFeaturesResponse(error_code=code, error_message=WHY[code])
    pace = ctx.pace()
    async for update in pace.each(request.feature_updates):
        try:
            check_update(update.feature, update.max_version_level, _type(ctx, update))
        except KafkaError as error:
            cause = "The update failed for all features since the following feature had an error: "
            return UpdateFeaturesResponse(error_code=error.code, error_message=cause + error.detail)
    return UpdateFeaturesResponse(
        error_message=None,
        results=[
            UpdatableFeatureResult(feature=update.feature, error_message="NONE")
            async for update in pace.each(request.feature_updates)
        ],
    )


def _type(ctx: RequestContext, update: FeatureUpdateKey) -> int:
    if ctx.header.api_version == 0:
        return SAFE_DOWNGRADE if update.allow_downgrade else UPGRADE
    return update.upgrade_type
