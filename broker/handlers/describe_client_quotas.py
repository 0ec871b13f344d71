"""DescribeClientQuotas, API 48, v0-1.

Kept: exact, default and any name of each entity type, `strict`, and Kafka's refusals. Answered from
what this broker knows, which may be a moment behind an alteration on another one, as in Kafka.
"""

from tailrace.broker.authorization.required import WHY
from tailrace.broker.context import RequestContext
from tailrace.broker.errors import KafkaError
from tailrace.broker.handlers import handles
from tailrace.broker.quotas.filters import filter_of
from tailrace.core.access.acls.model import Operation
from tailrace.protocol.kafka.apis import DESCRIBE_CLIENT_QUOTAS
from tailrace.protocol.kafka.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)


@handles(DESCRIBE_CLIENT_QUOTAS)
async def describe_client_quotas(
    ctx: RequestContext, request: DescribeClientQuotasRequest
) -> DescribeClientQuotasResponse:
    """Return the quotas of the entities that are asked for."""
    if code := ctx.cluster_refusal(Operation.DESCRIBE_CONFIGS):
        return DescribeClientQuotasResponse(error_code=code, error_message=WHY[code], entries=None)
    components = [(each.entity_type, each.match_type, each.match) for each in request.components]
    try:
        wanted = filter_of(components, strict=request.strict)
    except KafkaError as error:
        return DescribeClientQuotasResponse(
            error_code=error.code, error_message=error.detail, entries=None
        )
    entries = [
        EntryData(
            entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
            values=[ValueData(key=key, value=value) for key, value in sorted(values.items())],
        )
        async for entity, values in ctx.pace().each(list(ctx.broker.quotas.quotas.items()))
        if wanted.matches(entity)
    ]
    return DescribeClientQuotasResponse(error_message=None, entries=entries)
