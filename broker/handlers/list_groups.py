"""ListGroups: every group that this broker coordinates."""

from tailrace.broker.context import RequestContext
from tailrace.broker.handlers import handles
from tailrace.core.access.acls.model import Operation, ResourceType
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.kafka.apis import LIST_GROUPS
from tailrace.protocol.kafka.messages.list_groups import ListGroupsRequest, ListGroupsResponse


@handles(LIST_GROUPS)
async def list_groups(ctx: RequestContext, request: ListGroupsRequest) -> ListGroupsResponse:
    """ListGroups v0-5, filtered by state (v4+) and type (v5+), without regard to case.

    Source: KafkaApis.handleListGroupsRequest.
    """
    pace = ctx.pace()
    states = {state.lower() async for state in pace.each(request.states_filter)}
    kinds = {kind.lower() async for kind in pace.each(request.types_filter)}
    found = await ctx.broker.groups.list_groups(states, kinds, pace)
    if isinstance(found, ErrorCode):
        return ListGroupsResponse(error_code=found)
    if not ctx.may(Operation.DESCRIBE):
        shown = pace.each(found)
        found = [each async for each in shown if ctx.shows(ResourceType.GROUP, each.group_id)]
    return ListGroupsResponse(groups=found)
