"""DescribeGroups: state, members and assignments of groups."""

from tailrace.broker.context import RequestContext
from tailrace.broker.handlers import handles
from tailrace.broker.handlers._authorized_operations import authorized_operations
from tailrace.core.access.acls.model import Operation, ResourceType
from tailrace.protocol.kafka.apis import DESCRIBE_GROUPS
from tailrace.protocol.kafka.messages.describe_groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)

GROUP_UNITS = 2
"""What it takes to describe one group, without its members."""


@handles(DESCRIBE_GROUPS)
async def describe_groups(
    ctx: RequestContext, request: DescribeGroupsRequest
) -> DescribeGroupsResponse:
    """DescribeGroups v0-6: a group that is not there is Dead, and an error since v6.

    One that is named twice is answered once: its clients tell answers apart by the names in them.

    Source: KafkaApis.handleDescribeGroupsRequest; AclEntry.supportedOperations.
    """
    version, pace = ctx.header.api_version, ctx.pace()
    groups = []
    async for group_id in pace.each(dict.fromkeys(request.groups), GROUP_UNITS):
        if code := ctx.refusal(Operation.DESCRIBE, ResourceType.GROUP, group_id):
            groups.append(DescribedGroup(group_id=group_id, error_code=code))
            continue
        group = ctx.broker.groups.describe(group_id, version)
        if request.include_authorized_operations and not group.error_code:
            operations = authorized_operations(ctx, ResourceType.GROUP, group_id)
            group.authorized_operations = operations
        groups.append(group)
        await pace.spend(len(group.members))
    return DescribeGroupsResponse(groups=groups)
