"""AlterConfigs, API 33, v0-2: the old request, which replaces all configs of a resource.

Kept: what is not named goes back to its default; topics, brokers (one, or all), groups and metrics
subscriptions; `validate_only`; one resource's failure touches no other. Loggers are refused, as
Kafka does. What is fixed when a topic is created has to be named again as it is.
"""

from broker.cluster.admin import repeated
from broker.cluster.alterations import Alteration, Changes, ConfigOp
from broker.context import RequestContext
from broker.errors import KafkaError
from broker.handlers import handles
from broker.handlers._configs import check_names, check_values, outcome
from protocol.errors import ErrorCode
from protocol.kafka.apis import ALTER_CONFIGS
from protocol.kafka.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)


@handles(ALTER_CONFIGS)
async def alter_configs(ctx: RequestContext, request: AlterConfigsRequest) -> AlterConfigsResponse:
    """Replace the configs of each resource, or say why not."""
    twice = repeated((r.resource_type, r.resource_name) for r in request.resources)
    responses = []
    for resource in request.resources:
        code: tuple[ErrorCode, str | None]
        if (resource.resource_type, resource.resource_name) in twice:
            code = ErrorCode.INVALID_REQUEST, "Each resource must appear at most once."
        else:
            code = await _replace(ctx, resource, validate_only=request.validate_only)
        responses.append(
            AlterConfigsResourceResponse(
                error_code=code[0],
                error_message=code[1],
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
        )
    return AlterConfigsResponse(responses=responses)


async def _replace(
    ctx: RequestContext, resource: AlterConfigsResource, *, validate_only: bool
) -> tuple[ErrorCode, str | None]:
    configs = resource.configs
    try:
        check_names(config.name for config in configs)
        check_values(config.name for config in configs if config.value is None)
    except KafkaError as error:
        return error.code, error.detail
    given = [Alteration(config.name, ConfigOp.SET, config.value) for config in configs]
    changes = Changes(given, whole=True)
    return await outcome(
        ctx, resource.resource_type, resource.resource_name, changes, validate_only=validate_only
    )
