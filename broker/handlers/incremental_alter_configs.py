"""IncrementalAlterConfigs, API 44, v0-1.

Kept: SET, DELETE, APPEND and SUBTRACT on topics, all changes of a resource or none;
`validate_only`; one resource's failure touches no other. Broker configs cannot change while the
broker runs, so each is INVALID_CONFIG. Not kept: loggers, client metrics, groups.
"""

from collections.abc import Sequence

from broker.cluster.admin import repeated
from broker.cluster.resources import ResourceType, check_broker_name, unsupported
from broker.cluster.settings import Alteration, ConfigOp
from broker.context import RequestContext
from broker.errors import KafkaError, error_code
from broker.handlers import handles
from core.errors import CoreError
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
        if (resource.resource_type, resource.resource_name) in twice:
            message = "Each resource must appear at most once."
            responses.append(_response(resource, ErrorCode.INVALID_REQUEST, message))
        else:
            responses.append(await _alter(ctx, resource, validate_only=request.validate_only))
    return IncrementalAlterConfigsResponse(responses=responses)


async def _alter(
    ctx: RequestContext, resource: AlterConfigsResource, *, validate_only: bool
) -> AlterConfigsResourceResponse:
    try:
        changes = _changes(resource.configs)
        if resource.resource_type == ResourceType.BROKER:
            _refuse_broker(ctx, resource)
        elif resource.resource_type != ResourceType.TOPIC:
            raise unsupported(resource.resource_type)
        else:
            await _alter_topic(ctx, resource.resource_name, changes, validate_only=validate_only)
    except KafkaError as error:
        return _response(resource, error.code, error.detail)
    except CoreError as error:
        return _response(resource, error_code(error), str(error))
    return _response(resource, ErrorCode.NONE, None)


async def _alter_topic(
    ctx: RequestContext, name: str, changes: Sequence[Alteration], *, validate_only: bool
) -> None:
    if not name:
        detail = "Default topic resources are not allowed."
        raise KafkaError(ErrorCode.INVALID_REQUEST, detail)
    if validate_only:
        ctx.broker.topics.check_alter(name, changes)
    else:
        await ctx.broker.topics.alter_configs(name, changes)


def _changes(configs: Sequence[AlterableConfig]) -> list[Alteration]:
    if repeated(config.name for config in configs):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    changes = []
    for config in configs:
        try:
            op = ConfigOp(config.config_operation)
        except ValueError as error:
            detail = f"Unknown operation type {config.config_operation} for {config.name}"
            raise KafkaError(ErrorCode.INVALID_REQUEST, detail) from error
        if config.value is None and op is not ConfigOp.DELETE:
            detail = f"Null value not supported for : {config.name}"
            raise KafkaError(ErrorCode.INVALID_REQUEST, detail)
        changes.append(Alteration(config.name, op, config.value))
    return changes


def _refuse_broker(ctx: RequestContext, resource: AlterConfigsResource) -> None:
    check_broker_name(resource.resource_name, ctx.broker.node_id)
    names = ", ".join(sorted(config.name for config in resource.configs))
    if names:
        detail = f"Cannot update these configs dynamically: {names}; set them at start"
        raise KafkaError(ErrorCode.INVALID_CONFIG, detail)


def _response(
    resource: AlterConfigsResource, code: ErrorCode, message: str | None
) -> AlterConfigsResourceResponse:
    return AlterConfigsResourceResponse(
        error_code=code,
        error_message=message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )
