"""ConsumerGroupDescribe: epochs, members and assignments of KIP-848 groups."""

from collections.abc import Mapping
from typing import Any

from tailrace.broker.context import RequestContext
from tailrace.broker.handlers import handles
from tailrace.broker.handlers._authorized_operations import authorized_operations
from tailrace.core.access.acls.model import Operation, ResourceType
from tailrace.core.runtime.loop_turns import Pace
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.kafka.apis import CONSUMER_GROUP_DESCRIBE
from tailrace.protocol.kafka.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)

HIDDEN = "The group has described topic(s) that the client is not authorized to describe."
GROUP_UNITS = 5
"""What it takes to ask about one group."""


@handles(CONSUMER_GROUP_DESCRIBE)
async def consumer_group_describe(
    ctx: RequestContext, request: ConsumerGroupDescribeRequest
) -> ConsumerGroupDescribeResponse:
    """ConsumerGroupDescribe v0-1: 69 for a group that is not there, or a classic one.

    One that is named twice is answered once. Answered when all that it shows is confirmed.
    Cancel: nothing is lost.
    Source: KafkaApis.handleConsumerGroupDescribe; KIP-848; reference 6.8.
    """
    pace = ctx.pace()
    groups, asked = [], []
    async for group_id in pace.each(dict.fromkeys(request.group_ids), GROUP_UNITS):
        if code := ctx.refusal(Operation.DESCRIBE, ResourceType.GROUP, group_id):
            groups.append(_described(group_id, code))
        else:
            asked.append((group_id, ctx.broker.groups.describe_consumer_group(group_id)))
    async for group_id, answer in pace.each(asked):
        group = _described(group_id, await answer)
        if request.include_authorized_operations and group.error_code == ErrorCode.NONE:
            operations = authorized_operations(ctx, ResourceType.GROUP, group_id)
            group.authorized_operations = operations
        groups.append(await _hidden(ctx, group, pace))
    return ConsumerGroupDescribeResponse(groups=groups)


async def _hidden(ctx: RequestContext, group: DescribedGroup, pace: Pace) -> DescribedGroup:
    """Hide the members of a group that has topics of which the client may not know."""
    if ctx.broker.authorizer is None or group.error_code:
        return group
    async for name in pace.each(_topics(group)):
        if not ctx.shows(ResourceType.TOPIC, name):
            group.error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            group.error_message = HIDDEN
            group.members = ()
            break
    return group


def _topics(group: DescribedGroup) -> Mapping[str, None]:
    return dict.fromkeys(
        topic.topic_name
        for member in group.members
        for assignment in (member.assignment, member.target_assignment)
        for topic in assignment.topic_partitions
    )


def _described(group_id: str, result: Any) -> DescribedGroup:
    if isinstance(result, ErrorCode):
        return DescribedGroup(group_id=group_id, error_code=result)
    group: DescribedGroup = result
    return group
