"""ConsumerGroupHeartbeat: all that a member of a KIP-848 group ever says to its coordinator."""

from collections.abc import Callable
from typing import Any, Final, TypeAlias

from tailrace.broker.context import RequestContext
from tailrace.broker.handlers import Answer, handles
from tailrace.broker.handlers._groups import answered, caller_of, in_time
from tailrace.core.access.acls.model import Operation, ResourceType
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.kafka.apis import CONSUMER_GROUP_HEARTBEAT
from tailrace.protocol.kafka.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)

Build: TypeAlias = Callable[[Any], ConsumerGroupHeartbeatResponse]
NAMES_AT_ONCE: Final = 500
"""Topics of a subscription that are asked about in one go."""


@handles(CONSUMER_GROUP_HEARTBEAT)
def consumer_group_heartbeat(
    ctx: RequestContext, request: ConsumerGroupHeartbeatRequest
) -> Answer[ConsumerGroupHeartbeatResponse]:
    """ConsumerGroupHeartbeat v0-1: answered when what it brought about is confirmed; no barrier.

    Errors: 14, 15, 16, 25, 29, 30, 42, 69, 81, 82, 110, 111, 112, 128 in the response.
    Source: KafkaApis.handleConsumerGroupHeartbeat; KIP-848; reference 6.8.
    """

    def build(result: Any) -> ConsumerGroupHeartbeatResponse:
        if isinstance(result, ErrorCode):
            return ConsumerGroupHeartbeatResponse(error_code=result)
        response: ConsumerGroupHeartbeatResponse = result
        return response

    if code := ctx.refusal(Operation.READ, ResourceType.GROUP, request.group_id):
        return ConsumerGroupHeartbeatResponse(error_code=code)
    names = request.subscribed_topic_names or ()
    if len(names) > NAMES_AT_ONCE:
        return _heartbeat_of_many(ctx, request, build)
    if any(not ctx.allows(Operation.DESCRIBE, ResourceType.TOPIC, name) for name in names):
        return build(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    return answered(ctx.broker.groups.consumer_heartbeat(request, caller_of(ctx)), build)


async def _heartbeat_of_many(
    ctx: RequestContext, request: ConsumerGroupHeartbeatRequest, build: Build
) -> ConsumerGroupHeartbeatResponse:
    async for name in ctx.pace().each(request.subscribed_topic_names or ()):
        if not ctx.allows(Operation.DESCRIBE, ResourceType.TOPIC, name):
            return build(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    answer = answered(ctx.broker.groups.consumer_heartbeat(request, caller_of(ctx)), build)
    return (await in_time(answer))[0]
