"""OffsetCommit: remember how far a group has read."""

from collections.abc import Coroutine, Iterable, Sequence
from dataclasses import replace
from typing import Any, Final, TypeAlias

from tailrace.broker.context import RequestContext
from tailrace.broker.coordinator.plans import commit_response, refuse_commit
from tailrace.broker.handlers import Deferred, handles
from tailrace.broker.handlers._groups import answered, caller_of, in_time
from tailrace.broker.handlers._slices import AT_ONCE, is_long, join, parts
from tailrace.core.access.acls.model import Operation, ResourceType
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.kafka.apis import OFFSET_COMMIT
from tailrace.protocol.kafka.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

TOPIC_IDS_SINCE = 10
PARTITION_UNITS: Final = 2
"""What it takes to commit the offset of one partition."""

Awaited: TypeAlias = Coroutine[Any, Any, OffsetCommitResponse]


@handles(OFFSET_COMMIT)
def offset_commit(
    ctx: RequestContext, request: OffsetCommitRequest
) -> OffsetCommitResponse | Deferred[OffsetCommitResponse] | Awaited:
    """OffsetCommit v2-10: answered when the offsets are on disk at an ack quorum.

    Many partitions are committed in parts, one after the other; Kafka refuses what is more than a
    batch of records holds.
    Errors: per partition; what concerns the whole group stands at every partition that is there.
    COORDINATOR_NOT_AVAILABLE after `offsets.commit.timeout.ms`: it may still be stored.
    Source: KafkaApis.handleOffsetCommitRequest; reference 6.5.
    """
    if is_long(request.topics):
        return _commit_parts(ctx, request)
    return _commit(ctx, request)


async def _commit_parts(ctx: RequestContext, request: OffsetCommitRequest) -> OffsetCommitResponse:
    """Commit one part after the other; once one takes too long, none that follows is tried."""
    pace, is_late = ctx.pace(), False
    topics: list[OffsetCommitResponseTopic] = []
    for part in parts(request.topics):
        some = replace(request, topics=part)
        await pace.spend(PARTITION_UNITS * AT_ONCE)
        if is_late:
            response = _refused(ctx, *_known(ctx, some), ErrorCode.COORDINATOR_NOT_AVAILABLE)
        else:
            answer = _commit(ctx, some)
            response, is_late = await in_time(answer)
        join(topics, response.topics)
    return OffsetCommitResponse(topics=topics)


def _commit(
    ctx: RequestContext, request: OffsetCommitRequest
) -> OffsetCommitResponse | Deferred[OffsetCommitResponse]:
    if code := ctx.refusal(Operation.READ, ResourceType.GROUP, request.group_id):
        topics = [_refused_topic(topic, code) for topic in request.topics]
        return OffsetCommitResponse(topics=topics)
    request, refused = _known(ctx, request)
    if refused and not request.topics:
        return OffsetCommitResponse(topics=refused)

    def build(result: Any) -> OffsetCommitResponse:
        if isinstance(result, ErrorCode):
            return _refused(ctx, request, refused, result)
        return _told(request, refused, result)

    timeout_ms = ctx.broker.config.groups.offsets_commit_timeout_ms
    return answered(ctx.broker.groups.commit(request, caller_of(ctx)), build, timeout_ms)


def _known(
    ctx: RequestContext, request: OffsetCommitRequest
) -> tuple[OffsetCommitRequest, list[OffsetCommitResponseTopic]]:
    """Return what is asked of topics that may be read, by name, and what is said of the others."""
    topics: Sequence[OffsetCommitRequestTopic] = request.topics
    refused: list[OffsetCommitResponseTopic] = []
    if ctx.header.api_version >= TOPIC_IDS_SINCE:
        topics, refused = _named(ctx, topics)
    if ctx.broker.authorizer is not None:
        asked, topics = topics, []
        for topic in asked:
            if code := ctx.refusal(Operation.READ, ResourceType.TOPIC, topic.name):
                refused.append(_refused_topic(topic, code))
            else:
                topics.append(topic)
    return (replace(request, topics=topics), refused) if refused else (request, [])


def _refused(
    ctx: RequestContext,
    request: OffsetCommitRequest,
    refused: Iterable[OffsetCommitResponseTopic],
    code: ErrorCode,
) -> OffsetCommitResponse:
    """Say what the coordinator's no is, and what was refused before."""
    count = ctx.broker.groups.partition_count
    return _told(request, refused, commit_response(refuse_commit(request.topics, code, count)))


def _told(
    request: OffsetCommitRequest,
    refused: Iterable[OffsetCommitResponseTopic],
    response: OffsetCommitResponse,
) -> OffsetCommitResponse:
    for asked, topic in zip(request.topics, response.topics, strict=True):
        topic.topic_id = asked.topic_id
    response.topics = [*refused, *response.topics]
    return response


def _named(
    ctx: RequestContext, topics: Sequence[OffsetCommitRequestTopic]
) -> tuple[list[OffsetCommitRequestTopic], list[OffsetCommitResponseTopic]]:
    """Give topics their names; return those that have one, and the answers of the others."""
    known: list[OffsetCommitRequestTopic] = []
    unknown: list[OffsetCommitResponseTopic] = []
    for topic in topics:
        found = ctx.broker.topics.by_id(topic.topic_id)
        if found is not None:
            topic.name = found.name
            known.append(topic)
            continue
        unknown.append(_refused_topic(topic, ErrorCode.UNKNOWN_TOPIC_ID))
    return known, unknown


def _refused_topic(topic: OffsetCommitRequestTopic, code: ErrorCode) -> OffsetCommitResponseTopic:
    partitions = [
        OffsetCommitResponsePartition(partition_index=each.partition_index, error_code=code)
        for each in topic.partitions
    ]
    return OffsetCommitResponseTopic(
        name=topic.name, topic_id=topic.topic_id, partitions=partitions
    )
