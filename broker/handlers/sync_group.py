"""SyncGroup: a member asks for its assignment, the leader brings everybody's."""

from typing import Any

from broker.context import RequestContext
from broker.handlers import Answer, handles
from broker.handlers._groups import answered
from protocol.errors import ErrorCode
from protocol.kafka.apis import SYNC_GROUP
from protocol.kafka.messages.sync_group import SyncGroupRequest, SyncGroupResponse


@handles(SYNC_GROUP)
def sync_group(ctx: RequestContext, request: SyncGroupRequest) -> Answer[SyncGroupResponse]:
    """SyncGroup v0-5: waits until the leader's assignments are confirmed on the stream.

    Errors: 14-16, 22-25, 27, 82 in the response.
    Source: KafkaApis.handleSyncGroupRequest; reference 6.4.
    """

    def build(result: Any) -> SyncGroupResponse:
        if isinstance(result, ErrorCode):
            return SyncGroupResponse(error_code=result)
        response: SyncGroupResponse = result
        return response

    return answered(ctx.broker.groups.sync(request), build)
