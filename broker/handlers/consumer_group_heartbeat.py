"""ConsumerGroupHeartbeat: all that a member of a KIP-848 group ever says to its coordinator."""

from typing import Any

from tailrace.broker.context import RequestContext
from tailrace.broker.handlers import Answer, handles
from tailrace.broker.handlers._groups import answered, caller_of
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.kafka.apis import CONSUMER_GROUP_HEARTBEAT
from tailrace.protocol.kafka.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)


@handles(CONSUMER_GROUP_HEARTBEAT)
def consumer_group_heartbeat(
    ctx: RequestContext, request: ConsumerGroupHeartbeatRequest
) -> Answer[ConsumerGroupHeartbeatResponse]:
    """ConsumerGroupHeartbeat v0-1: answered when what it brought about is confirmed; no barrier.

    Errors: 14, 15, 16, 25, 42, 69, 81, 82, 110, 111, 112, 128 in the response.
    Source: KafkaApis.handleConsumerGroupHeartbeat; KIP-848; reference 6.8.
    """

    def build(result: Any) -> ConsumerGroupHeartbeatResponse:
        if isinstance(result, ErrorCode):
            return ConsumerGroupHeartbeatResponse(error_code=result)
        response: ConsumerGroupHeartbeatResponse = result
        return response

    return answered(ctx.broker.groups.consumer_heartbeat(request, caller_of(ctx)), build)
