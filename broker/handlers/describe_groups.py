"""DescribeGroups: state, members and assignments of groups."""

from tailrace.broker.context import RequestContext
from tailrace.broker.handlers import handles
from tailrace.protocol.kafka.apis import DESCRIBE_GROUPS
from tailrace.protocol.kafka.messages.describe_groups import (
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)

GROUP_OPERATIONS = sum(1 << operation for operation in (3, 6, 8, 10, 11))
"""All that one may do with a group: read, delete, describe, describe and alter its configs."""

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
        group = ctx.broker.groups.describe(group_id, version)
        if request.include_authorized_operations and not group.error_code:
            group.authorized_operations = GROUP_OPERATIONS
        groups.append(group)
        await pace.spend(len(group.members))
    return DescribeGroupsResponse(groups=groups)
