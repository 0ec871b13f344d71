"""OffsetDelete: take back what a group has committed for some partitions."""

from typing import Any

from broker.context import RequestContext
from broker.handlers import Answer, handles
from broker.handlers._groups import answered
from protocol.errors import ErrorCode
from protocol.kafka.apis import OFFSET_DELETE
from protocol.kafka.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse


@handles(OFFSET_DELETE)
def offset_delete(
    ctx: RequestContext, request: OffsetDeleteRequest
) -> Answer[OffsetDeleteResponse]:
    """OffsetDelete v0: answered when the tombstones are confirmed.

    Errors: of the group on top, and then nothing else; UNKNOWN_TOPIC_OR_PARTITION and
    GROUP_SUBSCRIBED_TO_TOPIC at their partitions.
    Source: KafkaApis.handleOffsetDeleteRequest; reference 6.5.
    """

    def build(result: Any) -> OffsetDeleteResponse:
        if isinstance(result, ErrorCode):
            return OffsetDeleteResponse(error_code=result)
        response: OffsetDeleteResponse = result
        return response

    timeout_ms = ctx.broker.config.groups.offsets_commit_timeout_ms
    return answered(ctx.broker.groups.delete_offsets(request), build, timeout_ms)
