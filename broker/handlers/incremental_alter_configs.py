"""IncrementalAlterConfigs, API 44, v0-1.

Kept: SET, DELETE, APPEND and SUBTRACT on topics, brokers (one, or all), groups, loggers and metrics
subscriptions; all changes of a resource or none; `validate_only`; one resource's failure touches no
other. Not kept: an unknown operation is INVALID_REQUEST also where Kafka has no code for it.
"""

from collections.abc import Sequence

from tailrace.broker.cluster.alterations import Alteration, Changes, ConfigOp
from tailrace.broker.context import RequestContext
from tailrace.broker.errors import KafkaError
from tailrace.broker.handlers import handles
from tailrace.broker.handlers._configs import alter_each, check_names, check_values
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.kafka.apis import INCREMENTAL_ALTER_CONFIGS
from tailrace.protocol.kafka.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)


@handles(INCREMENTAL_ALTER_CONFIGS)
async def incremental_alter_configs(
    ctx: RequestContext, request: IncrementalAlterConfigsRequest
) -> IncrementalAlterConfigsResponse:
    """Alter each resource, or say why not."""
    answers = await alter_each(
        ctx,
        request.resources,
        lambda each: _changes(each.configs),
        validate_only=request.validate_only,
    )
    return IncrementalAlterConfigsResponse(
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


def _changes(configs: Sequence[AlterableConfig]) -> Changes:
    check_names([config.name for config in configs])
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
