"""SyncGroup: a member asks for its assignment, the leader brings everybody's."""

from typing import Any

from tailrace.broker.context import RequestContext
from tailrace.broker.handlers import Answer, handles
from tailrace.broker.handlers._groups import answered
from tailrace.core.access.acls.model import Operation, ResourceType
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.kafka.apis import SYNC_GROUP
from tailrace.protocol.kafka.messages.sync_group import SyncGroupRequest, SyncGroupResponse

NAMES_PROTOCOL_SINCE = 5


@handles(SYNC_GROUP)
def sync_group(ctx: RequestContext, request: SyncGroupRequest) -> Answer[SyncGroupResponse]:
    """SyncGroup v0-5: waits until the leader's assignments are confirmed on the stream.

    Errors: 14-16, 22-25, 27, 30, 82 in the response; 23 also if v5 does not name the protocol.
    Source: KafkaApis.handleSyncGroupRequest; reference 6.4.
    """

    def build(result: Any) -> SyncGroupResponse:
        if isinstance(result, ErrorCode):
            return SyncGroupResponse(error_code=result)
        response: SyncGroupResponse = result
        return response

    if code := ctx.refusal(Operation.READ, ResourceType.GROUP, request.group_id):
        return SyncGroupResponse(error_code=code)
    is_named = request.protocol_type is not None and request.protocol_name is not None
    if ctx.header.api_version >= NAMES_PROTOCOL_SINCE and not is_named:
        return SyncGroupResponse(error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    return answered(ctx.broker.groups.sync(request), build)
