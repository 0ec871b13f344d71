"""LeaveGroup: members go, or an administrator removes static ones."""

from typing import Any, Final

from tailrace.broker.context import RequestContext
from tailrace.broker.handlers import Answer, handles
from tailrace.broker.handlers._groups import answered
from tailrace.core.access.acls.model import Operation, ResourceType
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.kafka.apis import LEAVE_GROUP
from tailrace.protocol.kafka.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
)

BATCHED_SINCE = 3
AT_ONCE: Final = 100
"""Members that leave in one go."""
MEMBER_UNITS: Final = 2
"""What it takes for one member to leave."""


@handles(LEAVE_GROUP)
def leave_group(ctx: RequestContext, request: LeaveGroupRequest) -> Answer[LeaveGroupResponse]:
    """LeaveGroup v0-5: one member before v3 with the error on top, then each its own.

    Many leave some at a time.

    Source: KafkaApis.handleLeaveGroupRequest; LeaveGroupResponse; reference 6.4.
    """
    if code := ctx.refusal(Operation.READ, ResourceType.GROUP, request.group_id):
        return LeaveGroupResponse(error_code=code)
    is_batched = ctx.header.api_version >= BATCHED_SINCE
    single = [MemberIdentity(member_id=request.member_id)]
    members = request.members if is_batched else single
    if len(members) > AT_ONCE:
        return _leave_many(ctx, request)

    def build(result: Any) -> LeaveGroupResponse:
        if isinstance(result, ErrorCode):
            return LeaveGroupResponse(error_code=result)
        response: LeaveGroupResponse = result
        if is_batched:
            return response
        return LeaveGroupResponse(error_code=response.members[0].error_code)

    return answered(ctx.broker.groups.leave(request.group_id, members), build)


async def _leave_many(ctx: RequestContext, request: LeaveGroupRequest) -> LeaveGroupResponse:
    pace, answers = ctx.pace(), []
    for start in range(0, len(request.members), AT_ONCE):
        some = request.members[start : start + AT_ONCE]
        result = await ctx.broker.groups.leave(request.group_id, some)
        if isinstance(result, ErrorCode):
            return LeaveGroupResponse(error_code=result)
        answers += result.members
        await pace.spend(MEMBER_UNITS * len(some))
    return LeaveGroupResponse(members=answers)
