"""IncrementalAlterConfigs, API 44, v0-1.

Kept: SET, DELETE, APPEND and SUBTRACT on topics, brokers (one, or all), groups, loggers and metrics
subscriptions; all changes of a resource or none; `validate_only`; one resource's failure touches no
other. Not kept: an unknown operation is INVALID_REQUEST also where Kafka has no code for it.
"""

from collections.abc import Sequence

from broker.cluster.admin import repeated
from broker.cluster.alterations import Alteration, Changes, ConfigOp
from broker.context import RequestContext
from broker.errors import KafkaError
from broker.handlers import handles
from broker.handlers._configs import check_names, check_values, outcome
from protocol.errors import ErrorCode
from protocol.kafka.apis import INCREMENTAL_ALTER_CONFIGS
from protocol.kafka.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)


@handles(INCREMENTAL_ALTER_CONFIGS)
async def incremental_alter_configs(
    ctx: RequestContext, request: IncrementalAlterConfigsRequest
) -> IncrementalAlterConfigsResponse:
    """Alter each resource, or say why not."""
    twice = repeated((r.resource_type, r.resource_name) for r in request.resources)
    responses = []
    for resource in request.resources:
        code: tuple[ErrorCode, str | None]
        if (resource.resource_type, resource.resource_name) in twice:
            code = ErrorCode.INVALID_REQUEST, "Each resource must appear at most once."
        else:
            code = await _alter(ctx, resource, validate_only=request.validate_only)
        responses.append(
            AlterConfigsResourceResponse(
                error_code=code[0],
                error_message=code[1],
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
        )
    return IncrementalAlterConfigsResponse(responses=responses)


async def _alter(
    ctx: RequestContext, resource: AlterConfigsResource, *, validate_only: bool
) -> tuple[ErrorCode, str | None]:
    try:
        changes = _changes(resource.configs)
    except KafkaError as error:
        return error.code, error.detail
    return await outcome(
        ctx, resource.resource_type, resource.resource_name, changes, validate_only=validate_only
    )


def _changes(configs: Sequence[AlterableConfig]) -> Changes:
    check_names(config.name for config in configs)
    check_values(
        config.name
        for config in configs
        if config.value is None and config.config_operation != ConfigOp.DELETE
    )
    return Changes([Alteration(each.name, _operation(each), each.value) for each in configs])


def _operation(config: AlterableConfig) -> ConfigOp:
    try:
        return ConfigOp(config.config_operation)
    except ValueError as error:
        detail = f"Unknown operations type {config.config_operation}"
        raise KafkaError(ErrorCode.INVALID_REQUEST, detail) from error
