"""OffsetDelete: take back what a group has committed for some partitions."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from tailrace.broker.context import RequestContext
from tailrace.broker.handlers import Deferred, handles
from tailrace.broker.handlers._groups import answered, in_time
from tailrace.broker.handlers._slices import AT_ONCE, join, parts
from tailrace.core.access.acls.model import Operation, ResourceType
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.kafka.apis import OFFSET_DELETE
from tailrace.protocol.kafka.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
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
    if code := ctx.refusal(Operation.DELETE, ResourceType.GROUP, request.group_id):
        return OffsetDeleteResponse(error_code=code)
    pace = ctx.pace()
    topics: list[OffsetDeleteResponseTopic] = []
    for part in parts(request.topics):
        allowed, refused = _readable(ctx, part)
        response, _ = await in_time(_delete(ctx, replace(request, topics=allowed)))
        if response.error_code:
            return response
        join(topics, [*refused, *response.topics])
        await pace.spend(PARTITION_UNITS * AT_ONCE)
    if not topics:
        return (await in_time(_delete(ctx, request)))[0]
    return OffsetDeleteResponse(topics=topics)


def _readable(
    ctx: RequestContext, topics: Sequence[OffsetDeleteRequestTopic]
) -> tuple[Sequence[OffsetDeleteRequestTopic], list[OffsetDeleteResponseTopic]]:
    """Return the topics that the client may read, and the answers of the others."""
    if ctx.broker.authorizer is None:
        return topics, []
    allowed: list[OffsetDeleteRequestTopic] = []
    refused: list[OffsetDeleteResponseTopic] = []
    for topic in topics:
        code = ctx.refusal(Operation.READ, ResourceType.TOPIC, topic.name)
        if not code:
            allowed.append(topic)
            continue
        partitions = [
            OffsetDeleteResponsePartition(partition_index=each.partition_index, error_code=code)
            for each in topic.partitions
        ]
        refused.append(OffsetDeleteResponseTopic(name=topic.name, partitions=partitions))
    return allowed, refused


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
