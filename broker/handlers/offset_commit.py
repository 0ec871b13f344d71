"""OffsetCommit: remember how far a group has read."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from broker.context import RequestContext
from broker.coordinator.plans import commit_response, refuse_commit
from broker.handlers import Answer, handles
from broker.handlers._groups import answered, caller_of
from protocol.errors import ErrorCode
from protocol.kafka.apis import OFFSET_COMMIT
from protocol.kafka.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

TOPIC_IDS_SINCE = 10


@handles(OFFSET_COMMIT)
def offset_commit(
    ctx: RequestContext, request: OffsetCommitRequest
) -> Answer[OffsetCommitResponse]:
    """OffsetCommit v2-10: answered when the offsets are on disk at an ack quorum.

    Errors: per partition; what concerns the whole group stands at every partition that is there.
    COORDINATOR_NOT_AVAILABLE after `offsets.commit.timeout.ms`: it may still be stored.
    Source: KafkaApis.handleOffsetCommitRequest; reference 6.5.
    """
    unknown: list[OffsetCommitResponseTopic] = []
    if ctx.header.api_version >= TOPIC_IDS_SINCE:
        known, unknown = _named(ctx, request.topics)
        request = replace(request, topics=known)

    def build(result: Any) -> OffsetCommitResponse:
        if isinstance(result, ErrorCode):
            count = ctx.broker.groups.partition_count
            result = commit_response(refuse_commit(request.topics, result, count))
        response: OffsetCommitResponse = result
        for asked, topic in zip(request.topics, response.topics, strict=True):
            topic.topic_id = asked.topic_id
        response.topics = [*unknown, *response.topics]
        return response

    timeout_ms = ctx.broker.config.groups.offsets_commit_timeout_ms
    return answered(ctx.broker.groups.commit(request, caller_of(ctx)), build, timeout_ms)


def _named(
    ctx: RequestContext, topics: Sequence[OffsetCommitRequestTopic]
) -> tuple[list[OffsetCommitRequestTopic], list[OffsetCommitResponseTopic]]:
    """Give topics their names; return those that have one, and the answers of the others."""
    known, unknown = [], []
    for topic in topics:
        found = ctx.broker.topics.by_id(topic.topic_id)
        if found is not None:
            topic.name = found.name
            known.append(topic)
            continue
        partitions = [
            OffsetCommitResponsePartition(
                partition_index=partition.partition_index, error_code=ErrorCode.UNKNOWN_TOPIC_ID
            )
            for partition in topic.partitions
        ]
        unknown.append(OffsetCommitResponseTopic(topic_id=topic.topic_id, partitions=partitions))
    return known, unknown
