"""JoinGroup: become, or stay, a member of a group."""

from typing import Any

from broker.context import RequestContext
from broker.handlers import Answer, handles
from broker.handlers._groups import answered, caller_of
from protocol.errors import ErrorCode
from protocol.kafka.apis import JOIN_GROUP
from protocol.kafka.messages.join_group import JoinGroupRequest, JoinGroupResponse


@handles(JOIN_GROUP)
def join_group(ctx: RequestContext, request: JoinGroupRequest) -> Answer[JoinGroupResponse]:
    """JoinGroup v0-9: waits until the join barrier opens, holding its connection as in Kafka.

    Errors: 14, 15, 16, 22-26, 27 (superseded), 79, 81, 82 in the response.
    Source: KafkaApis.handleJoinGroupRequest; reference 6.3.
    """

    def build(result: Any) -> JoinGroupResponse:
        if isinstance(result, ErrorCode):
            return JoinGroupResponse(error_code=result, member_id=request.member_id)
        response: JoinGroupResponse = result
        return response

    return answered(ctx.broker.groups.join(request, caller_of(ctx)), build)
