"""ConsumerGroupDescribe: epochs, members and assignments of KIP-848 groups."""

from typing import Any

from tailrace.broker.context import RequestContext
from tailrace.broker.handlers import handles
from tailrace.broker.handlers.describe_groups import GROUP_OPERATIONS
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.kafka.apis import CONSUMER_GROUP_DESCRIBE
from tailrace.protocol.kafka.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)

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
    asked = [
        (group_id, ctx.broker.groups.describe_consumer_group(group_id))
        async for group_id in pace.each(dict.fromkeys(request.group_ids), GROUP_UNITS)
    ]
    groups = []
    async for group_id, answer in pace.each(asked):
        group = _described(group_id, await answer)
        if request.include_authorized_operations and group.error_code == ErrorCode.NONE:
            group.authorized_operations = GROUP_OPERATIONS
        groups.append(group)
    return ConsumerGroupDescribeResponse(groups=groups)


def _described(group_id: str, result: Any) -> DescribedGroup:
    if isinstance(result, ErrorCode):
        return DescribedGroup(group_id=group_id, error_code=result)
    group: DescribedGroup = result
    return group
