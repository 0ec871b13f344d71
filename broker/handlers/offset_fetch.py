"""OffsetFetch: how far groups have read."""

from collections.abc import Iterable, Sequence

from broker.context import RequestContext
from broker.coordinator.reading import NOT_COMMITTED, FoundOffset, FoundOffsets, WantedOffsets
from broker.handlers import handles
from core.runtime.tasks import together
from protocol.errors import ErrorCode
from protocol.kafka.apis import OFFSET_FETCH
from protocol.kafka.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

GROUP_ERROR_SINCE = 2
BATCHED_SINCE = 8
TOPIC_IDS_SINCE = 10


@handles(OFFSET_FETCH)
async def offset_fetch(ctx: RequestContext, request: OffsetFetchRequest) -> OffsetFetchResponse:
    """OffsetFetch v1-10: one group before v8, then any number; topics by id since v10.

    What was never committed is offset -1 without an error. `require_stable` first waits until the
    commits that are under way are confirmed, and says UNSTABLE_OFFSET_COMMIT for what an open
    transaction may still change.
    Errors: of the group: on top (v2+), at each partition (v1), in its group (v8+). Topic ids that
    nothing has: UNKNOWN_TOPIC_ID at their partitions.
    Source: KafkaApis.handleOffsetFetchRequest; reference 6.5.
    """
    if ctx.header.api_version < BATCHED_SINCE:
        return await _single(ctx, request)
    is_stable = request.require_stable
    groups = await together([_group(ctx, each, is_stable=is_stable) for each in request.groups])
    return OffsetFetchResponse(groups=groups)


async def _single(ctx: RequestContext, request: OffsetFetchRequest) -> OffsetFetchResponse:
    topics = None
    if request.topics is not None:
        topics = [(topic.name, topic.partition_indexes) for topic in request.topics]
    wanted = WantedOffsets(request.group_id, topics, request.require_stable)
    code, found = await ctx.broker.groups.find_offsets(wanted)
    if code is not ErrorCode.NONE and ctx.header.api_version < GROUP_ERROR_SINCE:
        found = _refused(topics or (), code)
    return OffsetFetchResponse(
        error_code=code,
        topics=[
            OffsetFetchResponseTopic(
                name=name,
                partitions=[
                    OffsetFetchResponsePartition(
                        partition_index=each.partition,
                        committed_offset=each.committed.offset,
                        committed_leader_epoch=each.committed.leader_epoch,
                        metadata=each.committed.metadata,
                        error_code=each.code,
                    )
                    for each in offsets
                ],
            )
            for name, offsets in found
        ],
    )


def _refused(
    topics: Iterable[tuple[str, Sequence[int]]], code: ErrorCode
) -> list[tuple[str, list[FoundOffset]]]:
    return [
        (name, [FoundOffset(index, NOT_COMMITTED, code) for index in indexes])
        for name, indexes in topics
    ]


async def _group(
    ctx: RequestContext, group: OffsetFetchRequestGroup, *, is_stable: bool
) -> OffsetFetchResponseGroup:
    by_id = ctx.header.api_version >= TOPIC_IDS_SINCE
    topics, unknown = _named(ctx, group.topics) if by_id else (group.topics, [])
    wanted = WantedOffsets(
        group.group_id,
        None if topics is None else [(topic.name, topic.partition_indexes) for topic in topics],
        is_stable,
        group.member_id,
        group.member_epoch,
    )
    found = await ctx.broker.groups.find_offsets(wanted)
    answers = [*unknown, *_answers(found)] if found.code is ErrorCode.NONE else []
    if by_id:
        answers = [topic for topic in answers if _set_id(ctx, topic)]
    return OffsetFetchResponseGroup(group_id=group.group_id, error_code=found.code, topics=answers)


def _named(
    ctx: RequestContext, topics: Sequence[OffsetFetchRequestTopics] | None
) -> tuple[Sequence[OffsetFetchRequestTopics] | None, list[OffsetFetchResponseTopics]]:
    """Give topics their names; return those that have one, and the answers of the others."""
    if topics is None:
        return None, []
    known, unknown = [], []
    for topic in topics:
        found = ctx.broker.topics.by_id(topic.topic_id)
        if found is None:
            refused = _refused([("", topic.partition_indexes)], ErrorCode.UNKNOWN_TOPIC_ID)
            (answer,) = _answers(FoundOffsets(ErrorCode.NONE, refused))
            answer.topic_id = topic.topic_id
            unknown.append(answer)
        else:
            topic.name = found.name
            known.append(topic)
    return known, unknown


def _set_id(ctx: RequestContext, topic: OffsetFetchResponseTopics) -> bool:
    """Give an answer its topic's id; False for a topic that is gone, and cannot be named."""
    if topic.name:
        found = ctx.broker.topics.get(topic.name)
        if found is None:
            return False
        topic.topic_id = found.topic_id
    return True


def _answers(found: FoundOffsets) -> list[OffsetFetchResponseTopics]:
    return [
        OffsetFetchResponseTopics(
            name=name,
            partitions=[
                OffsetFetchResponsePartitions(
                    partition_index=each.partition,
                    committed_offset=each.committed.offset,
                    committed_leader_epoch=each.committed.leader_epoch,
                    metadata=each.committed.metadata,
                    error_code=each.code,
                )
                for each in offsets
            ],
        )
        for name, offsets in found.topics
    ]
