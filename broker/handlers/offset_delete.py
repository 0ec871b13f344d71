"""OffsetDelete: take back what a group has committed for some partitions."""

from dataclasses import replace
from typing import Any, Final

from tailrace.broker.context import RequestContext
from tailrace.broker.handlers import Deferred, handles
from tailrace.broker.handlers._groups import answered, in_time
from tailrace.broker.handlers._slices import AT_ONCE, join, parts
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.kafka.apis import OFFSET_DELETE
from tailrace.protocol.kafka.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponseTopic,
)

PARTITION_UNITS: Final = 2
"""What it takes to delete the offset of one partition."""


@handles(OFFSET_DELETE)
async def offset_delete(ctx: RequestContext, request: OffsetDeleteRequest) -> OffsetDeleteResponse:
    """OffsetDelete v0: answered when the tombstones are confirmed; in parts, if there are many.

    Errors: of the group on top, and then nothing else; UNKNOWN_TOPIC_OR_PARTITION and
    GROUP_SUBSCRIBED_TO_TOPIC at their partitions.
    Source: KafkaApis.handleOffsetDeleteRequest; reference 6.5.
    """
    pace = ctx.pace()
    topics: list[OffsetDeleteResponseTopic] = []
    for part in parts(request.topics):
        response, _ = await in_time(_delete(ctx, replace(request, topics=part)))
        if response.error_code:
            return response
        join(topics, response.topics)
        await pace.spend(PARTITION_UNITS * AT_ONCE)
    if not topics:
        return (await in_time(_delete(ctx, request)))[0]
    return OffsetDeleteResponse(topics=topics)


def _delete(
    ctx: RequestContext, request: OffsetDeleteRequest
) -> OffsetDeleteResponse | Deferred[OffsetDeleteResponse]:
    def build(result: Any) -> OffsetDeleteResponse:
        if isinstance(result, ErrorCode):
            return OffsetDeleteResponse(error_code=result)
        response: OffsetDeleteResponse = result
        return response

    timeout_ms = ctx.broker.config.groups.offsets_commit_timeout_ms
    return answered(ctx.broker.groups.delete_offsets(request), build, timeout_ms)
