"""AlterConfigs, API 33, v0-2: the old request, which replaces all configs of a resource.

Kept: what is not named goes back to its default; topics, brokers (one, or all), groups and metrics
subscriptions; `validate_only`; one resource's failure touches no other. Loggers are refused, as
Kafka does. What is fixed when a topic is created has to be named again as it is.
"""

from tailrace.broker.cluster.alterations import Alteration, Changes, ConfigOp
from tailrace.broker.context import RequestContext
from tailrace.broker.handlers import handles
from tailrace.broker.handlers._configs import alter_each, check_names, check_values
from tailrace.protocol.kafka.apis import ALTER_CONFIGS
from tailrace.protocol.kafka.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)


@handles(ALTER_CONFIGS)
async def alter_configs(ctx: RequestContext, request: AlterConfigsRequest) -> AlterConfigsResponse:
    """Replace the configs of each resource, or say why not."""
    answers = await alter_each(
        ctx, request.resources, _changes, validate_only=request.validate_only
    )
    return AlterConfigsResponse(
        responses=[
            AlterConfigsResourceResponse(
                error_code=code,
                error_message=why,
                resource_type=each.resource_type,
                resource_name=each.resource_name,
            )
            async for each, code, why in ctx.pace().each(answers)
        ]
    )


def _changes(resource: AlterConfigsResource) -> Changes:
    """Return what is asked of a resource. Errors: KafkaError."""
    configs = resource.configs
    check_names([config.name for config in configs])
    check_values(config.name for config in configs if config.value is None)
    given = [Alteration(config.name, ConfigOp.SET, config.value) for config in configs]
    return Changes(given, whole=True)
