"""LeaveGroup: members go, or an administrator removes static ones."""

from typing import Any

from broker.context import RequestContext
from broker.handlers import Answer, handles
from broker.handlers._groups import answered
from protocol.errors import ErrorCode
from protocol.kafka.apis import LEAVE_GROUP
from protocol.kafka.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
)

BATCHED_SINCE = 3


@handles(LEAVE_GROUP)
def leave_group(ctx: RequestContext, request: LeaveGroupRequest) -> Answer[LeaveGroupResponse]:
    """LeaveGroup v0-5: one member before v3 with the error on top, then each its own.

    Source: KafkaApis.handleLeaveGroupRequest; LeaveGroupResponse; reference 6.4.
    """
    is_batched = ctx.header.api_version >= BATCHED_SINCE
    single = [MemberIdentity(member_id=request.member_id)]
    members = request.members if is_batched else single

    def build(result: Any) -> LeaveGroupResponse:
        if isinstance(result, ErrorCode):
            return LeaveGroupResponse(error_code=result)
        response: LeaveGroupResponse = result
        if is_batched:
            return response
        return LeaveGroupResponse(error_code=response.members[0].error_code)

    return answered(ctx.broker.groups.leave(request.group_id, members), build)
