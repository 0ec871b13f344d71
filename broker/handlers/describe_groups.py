"""DescribeGroups: state, members and assignments of groups."""

from broker.context import RequestContext
from broker.handlers import handles
from protocol.kafka.apis import DESCRIBE_GROUPS
from protocol.kafka.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse

GROUP_OPERATIONS = sum(1 << operation for operation in (3, 6, 8, 10, 11))
"""All that one may do with a group: read, delete, describe, describe and alter its configs."""


@handles(DESCRIBE_GROUPS)
def describe_groups(ctx: RequestContext, request: DescribeGroupsRequest) -> DescribeGroupsResponse:
    """DescribeGroups v0-6: a group that is not there is Dead, and an error since v6.

    Source: KafkaApis.handleDescribeGroupsRequest; AclEntry.supportedOperations.
    """
    version = ctx.header.api_version
    groups = [ctx.broker.groups.describe(group_id, version) for group_id in request.groups]
    if request.include_authorized_operations:
        for group in groups:
            if not group.error_code:
                group.authorized_operations = GROUP_OPERATIONS
    return DescribeGroupsResponse(groups=groups)
