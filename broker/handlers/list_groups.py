"""ListGroups: every group that this broker coordinates."""

from broker.context import RequestContext
from broker.handlers import handles
from protocol.errors import ErrorCode
from protocol.kafka.apis import LIST_GROUPS
from protocol.kafka.messages.list_groups import ListGroupsRequest, ListGroupsResponse


@handles(LIST_GROUPS)
async def list_groups(ctx: RequestContext, request: ListGroupsRequest) -> ListGroupsResponse:
    """ListGroups v0-5, filtered by state (v4+) and type (v5+), without regard to case.

    Source: KafkaApis.handleListGroupsRequest.
    """
    found = await ctx.broker.groups.list_groups(request.states_filter, request.types_filter)
    if isinstance(found, ErrorCode):
        return ListGroupsResponse(error_code=found)
    return ListGroupsResponse(groups=found)
