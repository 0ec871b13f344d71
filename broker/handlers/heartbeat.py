"""Heartbeat: a member's sign of life, and how it hears of a rebalance."""

from typing import Any

from tailrace.broker.context import RequestContext
from tailrace.broker.handlers import Answer, handles
from tailrace.broker.handlers._groups import answered
from tailrace.core.access.acls.model import Operation, ResourceType
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.kafka.apis import HEARTBEAT
from tailrace.protocol.kafka.messages.heartbeat import HeartbeatRequest, HeartbeatResponse


@handles(HEARTBEAT)
def heartbeat(ctx: RequestContext, request: HeartbeatRequest) -> Answer[HeartbeatResponse]:
    """Heartbeat v0-4: answered at once; 27 means "join again", 30 that it may not.

    Source: KafkaApis.handleHeartbeatRequest; reference 6.4.
    """

    def build(result: Any) -> HeartbeatResponse:
        if isinstance(result, ErrorCode):
            return HeartbeatResponse(error_code=result)
        response: HeartbeatResponse = result
        return response

    if code := ctx.refusal(Operation.READ, ResourceType.GROUP, request.group_id):
        return HeartbeatResponse(error_code=code)
    return answered(ctx.broker.groups.heartbeat(request), build)
