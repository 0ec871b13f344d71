"""ListConfigResources, API 74, v0-1: what configs can be asked for.

Kept: v0 lists metrics subscriptions, v1 the kinds that are asked for, or all. Topics, brokers and
their loggers are listed whether they have configs of their own or not, groups only if they have.
Source: KafkaApis.handleListConfigResources.
"""

from collections.abc import Iterable

from tailrace.broker.cluster.config_entities import EntityKind
from tailrace.broker.cluster.resources import ResourceType
from tailrace.broker.context import RequestContext
from tailrace.broker.handlers import handles
from tailrace.core.access.acls.model import Operation
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.kafka.apis import LIST_CONFIG_RESOURCES
from tailrace.protocol.kafka.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)


@handles(LIST_CONFIG_RESOURCES)
async def list_config_resources(
    ctx: RequestContext, request: ListConfigResourcesRequest
) -> ListConfigResourcesResponse:
    """List the resources of the kinds that are asked for."""
    if code := ctx.cluster_refusal(Operation.DESCRIBE_CONFIGS):
        return ListConfigResourcesResponse(error_code=code)
    pace = ctx.pace()
    asked = set(request.resource_types) or set(ResourceType)
    if ctx.header.api_version == 0:
        asked = {ResourceType.CLIENT_METRICS}
    if not asked <= set(ResourceType):
        return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    return ListConfigResourcesResponse(
        config_resources=[
            ConfigResource(resource_name=name, resource_type=kind)
            for kind in ResourceType
            if kind in asked
            async for name in pace.each(_names(ctx, kind))
        ]
    )


def _names(ctx: RequestContext, kind: ResourceType) -> Iterable[str]:
    entities = ctx.broker.configs.entities
    if kind is ResourceType.TOPIC:
        return [topic.name for topic in ctx.broker.topics.all()]
    if kind is ResourceType.GROUP:
        return entities.names(EntityKind.GROUP)
    if kind is ResourceType.CLIENT_METRICS:
        return entities.names(EntityKind.CLIENT_METRICS)
    return [str(ctx.broker.node_id)]
