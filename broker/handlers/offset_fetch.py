"""OffsetFetch: how far groups have read."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from tailrace.broker.context import RequestContext
from tailrace.broker.coordinator.reading import (
    NOT_COMMITTED,
    Found,
    FoundOffset,
    FoundOffsets,
    WantedOffsets,
)
from tailrace.broker.handlers import handles
from tailrace.core.access.acls.model import Operation, ResourceType
from tailrace.core.runtime.loop_turns import Pace
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.kafka.apis import OFFSET_FETCH
from tailrace.protocol.kafka.messages.offset_fetch import (
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
GROUP_UNITS: Final = 4
"""What it takes to find one group."""
PARTITIONS_AT_ONCE: Final = 500
"""Committed offsets that are looked up in one go."""


@handles(OFFSET_FETCH)
async def offset_fetch(ctx: RequestContext, request: OffsetFetchRequest) -> OffsetFetchResponse:
    """OffsetFetch v1-10: one group before v8, then any number; topics by id since v10.

    What was never committed is offset -1 without an error. `require_stable` first waits until the
    commits that are under way are confirmed, and says UNSTABLE_OFFSET_COMMIT for what an open
    transaction may still change. A group that is named twice is answered once, as it
    was named last.
    Errors: of the group: on top (v2+), at each partition (v1), in its group (v8+). Topic ids that
    nothing has: UNKNOWN_TOPIC_ID at their partitions.
    Source: KafkaApis.handleOffsetFetchRequest; reference 6.5.
    """
    pace = ctx.pace()
    if ctx.header.api_version < BATCHED_SINCE:
        return await _single(ctx, request, pace)
    groups = {group.group_id: group for group in request.groups}
    refused = await _denied(ctx, groups, pace)
    allowed = [group_id async for group_id in pace.each(groups) if group_id not in refused]
    refused.update(await _refusals(ctx, allowed, pace, is_stable=request.require_stable))
    return OffsetFetchResponse(
        groups=[
            OffsetFetchResponseGroup(group_id=group_id, error_code=refused[group_id])
            if group_id in refused
            else await _group(ctx, group, pace, is_stable=request.require_stable)
            async for group_id, group in pace.each(groups.items(), GROUP_UNITS)
        ]
    )


async def _denied(
    ctx: RequestContext, group_ids: Iterable[str], pace: Pace
) -> dict[str, ErrorCode]:
    """Return the groups that the client may not know of."""
    return {
        group_id: code
        async for group_id in pace.each(group_ids)
        if (code := ctx.refusal(Operation.DESCRIBE, ResourceType.GROUP, group_id))
    }


async def _refusals(
    ctx: RequestContext, group_ids: Collection[str], pace: Pace, *, is_stable: bool
) -> Mapping[str, ErrorCode]:
    """Wait until all that is to be told is stable, if it has to be; return of which it is not."""
    return await ctx.broker.groups.settle_all(group_ids, pace) if is_stable else {}


async def _single(
    ctx: RequestContext, request: OffsetFetchRequest, pace: Pace
) -> OffsetFetchResponse:
    name = request.group_id
    topics = None
    if request.topics is not None:
        topics = [(topic.name, topic.partition_indexes) for topic in request.topics]
    wanted = WantedOffsets(name, topics, request.require_stable)
    refused: Mapping[str, ErrorCode] = await _denied(ctx, (name,), pace)
    refused = refused or await _refusals(ctx, (name,), pace, is_stable=request.require_stable)
    code, found = FoundOffsets(refused[name], []) if refused else await _find(ctx, wanted, pace)
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
                    async for each in pace.each(offsets)
                ],
            )
            async for name, offsets in pace.each(found)
        ],
    )


async def _find(ctx: RequestContext, wanted: WantedOffsets, pace: Pace) -> FoundOffsets:
    """Look up what a group has committed, some partitions at a time.

    Topics of which the client may not know are refused, or left out if it asks for all.
    """
    groups, topics = ctx.broker.groups, wanted.topics
    if topics is None:
        topics = groups.committed_partitions(wanted.group_id)
    found: Found = []
    checked = groups.find_now(wanted._replace(topics=()))
    if checked.code is not ErrorCode.NONE:
        return checked
    async for name, indexes in pace.each(topics):
        denied = ctx.refusal(Operation.DESCRIBE, ResourceType.TOPIC, name)
        if denied and wanted.topics is None:
            continue
        offsets: list[FoundOffset] = []
        found.append((name, offsets))
        for start in range(0, len(indexes), PARTITIONS_AT_ONCE):
            some = indexes[start : start + PARTITIONS_AT_ONCE]
            await pace.spend(len(some))
            if denied:
                offsets += [FoundOffset(index, NOT_COMMITTED, denied) for index in some]
                continue
            part = groups.find_now(wanted._replace(topics=[(name, some)]))
            if part.code is not ErrorCode.NONE:  # it was given up meanwhile
                return part
            offsets += part.topics[0][1]
    return FoundOffsets(ErrorCode.NONE, found)


def _refused(
    topics: Iterable[tuple[str, Sequence[int]]], code: ErrorCode
) -> list[tuple[str, list[FoundOffset]]]:
    return [
        (name, [FoundOffset(index, NOT_COMMITTED, code) for index in indexes])
        for name, indexes in topics
    ]


async def _group(
    ctx: RequestContext, group: OffsetFetchRequestGroup, pace: Pace, *, is_stable: bool
) -> OffsetFetchResponseGroup:
    by_id = ctx.header.api_version >= TOPIC_IDS_SINCE
    topics = group.topics
    unknown: list[OffsetFetchResponseTopics] = []
    if by_id:
        topics, unknown = await _named(ctx, group.topics, pace)
    wanted = WantedOffsets(
        group.group_id,
        None if topics is None else [(topic.name, topic.partition_indexes) for topic in topics],
        is_stable,
        group.member_id,
        group.member_epoch,
    )
    found = await _find(ctx, wanted, pace)
    answers = []
    if found.code is ErrorCode.NONE:
        answers = [*unknown, *await _answers(found, pace)]
    if by_id:
        answers = [topic async for topic in pace.each(answers) if _set_id(ctx, topic)]
    return OffsetFetchResponseGroup(group_id=group.group_id, error_code=found.code, topics=answers)


async def _named(
    ctx: RequestContext, topics: Sequence[OffsetFetchRequestTopics] | None, pace: Pace
) -> tuple[Sequence[OffsetFetchRequestTopics] | None, list[OffsetFetchResponseTopics]]:
    """Give topics their names; return those that have one, and the answers of the others."""
    if topics is None:
        return None, []
    known, unknown = [], []
    async for topic in pace.each(topics):
        found = ctx.broker.topics.by_id(topic.topic_id)
        if found is None:
            refused = _refused([("", topic.partition_indexes)], ErrorCode.UNKNOWN_TOPIC_ID)
            (answer,) = await _answers(FoundOffsets(ErrorCode.NONE, refused), pace)
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


async def _answers(found: FoundOffsets, pace: Pace) -> list[OffsetFetchResponseTopics]:
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
                async for each in pace.each(offsets)
            ],
        )
        async for name, offsets in pace.each(found.topics)
    ]
