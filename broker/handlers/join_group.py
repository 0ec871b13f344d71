"""JoinGroup: become, or stay, a member of a group."""

from typing import Any

from tailrace.broker.context import RequestContext
from tailrace.broker.handlers import Answer, handles
from tailrace.broker.handlers._groups import answered, caller_of
from tailrace.core.access.acls.model import Operation, ResourceType
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.kafka.apis import JOIN_GROUP
from tailrace.protocol.kafka.messages.join_group import JoinGroupRequest, JoinGroupResponse

NO_PROTOCOL_SINCE = 7
"""Versions that can say that there is none; earlier ones say an empty name."""


@handles(JOIN_GROUP)
def join_group(ctx: RequestContext, request: JoinGroupRequest) -> Answer[JoinGroupResponse]:
    """JoinGroup v0-9: waits until the join barrier opens, holding its connection as in Kafka.

    Errors: 14, 15, 16, 22-26, 27 (superseded), 30, 79, 81, 82 in the response.
    Source: KafkaApis.handleJoinGroupRequest; reference 6.3.
    """

    def build(result: Any) -> JoinGroupResponse:
        if isinstance(result, ErrorCode):
            result = JoinGroupResponse(error_code=result, member_id=request.member_id)
        response: JoinGroupResponse = result
        if response.error_code and ctx.header.api_version >= NO_PROTOCOL_SINCE:
            response.protocol_name = None
        return response

    if code := ctx.refusal(Operation.READ, ResourceType.GROUP, request.group_id):
        return build(code)
    return answered(ctx.broker.groups.join(request, caller_of(ctx)), build)
