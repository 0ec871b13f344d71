"""ConsumerGroupDescribe: epochs, members and assignments of KIP-848 groups."""

from broker.context import RequestContext
from broker.handlers import handles
from broker.handlers.describe_groups import GROUP_OPERATIONS
from protocol.errors import ErrorCode
from protocol.kafka.apis import CONSUMER_GROUP_DESCRIBE
from protocol.kafka.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)


@handles(CONSUMER_GROUP_DESCRIBE)
def consumer_group_describe(
    ctx: RequestContext, request: ConsumerGroupDescribeRequest
) -> ConsumerGroupDescribeResponse:
    """ConsumerGroupDescribe v0-1: 69 for a group that is not there, or a classic one.

    Source: KafkaApis.handleConsumerGroupDescribe; reference 6.8.
    """
    groups = [ctx.broker.groups.describe_consumer_group(id_) for id_ in request.group_ids]
    if request.include_authorized_operations:
        for group in groups:
            if group.error_code == ErrorCode.NONE:
                group.authorized_operations = GROUP_OPERATIONS
    return ConsumerGroupDescribeResponse(groups=groups)
