"""OffsetFetch: how far groups have read."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from broker.context import RequestContext
from broker.coordinator.records import CommittedOffset
from broker.coordinator.runtime import GroupCoordinator
from broker.handlers import handles
from protocol.errors import ErrorCode
from protocol.kafka.apis import OFFSET_FETCH
from protocol.kafka.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

BATCHED_SINCE = 8
GROUP_ERROR_SINCE = 2
NOT_COMMITTED = CommittedOffset(-1, -1, "", -1)


class Wanted(NamedTuple):
    """What is asked of one group; no topics means all that it committed."""

    group_id: str
    topics: Sequence[OffsetFetchRequestTopic | OffsetFetchRequestTopics] | None


class Found(NamedTuple):
    """What there is for one group."""

    code: ErrorCode
    topics: list[tuple[str, list[tuple[int, CommittedOffset]]]]


@handles(OFFSET_FETCH)
async def offset_fetch(ctx: RequestContext, request: OffsetFetchRequest) -> OffsetFetchResponse:
    """OffsetFetch v1-9: one group before v8, then any number.

    What was never committed is offset -1 without an error. `require_stable` first waits until the
    commits that are under way are confirmed; there are no transactional ones that could be pending.
    Errors: of the group: on top (v2+), at each partition (v1), in its group (v8+).
    Source: KafkaApis.handleOffsetFetchRequest; reference 6.5.
    """
    groups = ctx.broker.groups
    if ctx.header.api_version >= BATCHED_SINCE:
        found = [
            (group.group_id, await _find(groups, Wanted(group.group_id, group.topics), request))
            for group in request.groups
        ]
        return OffsetFetchResponse(groups=[_group(group_id, each) for group_id, each in found])
    wanted = Wanted(request.group_id, request.topics)
    return _single(await _find(groups, wanted, request), wanted, ctx.header.api_version)


async def _find(groups: GroupCoordinator, wanted: Wanted, request: OffsetFetchRequest) -> Found:
    if request.require_stable:
        code = await groups.settle(wanted.group_id)
        if code is not ErrorCode.NONE:
            return Found(code, [])
    committed = groups.offsets(wanted.group_id)
    if isinstance(committed, ErrorCode):
        return Found(committed, [])
    return Found(ErrorCode.NONE, list(_select(committed, wanted)))


def _select(
    committed: Mapping[str, Mapping[int, CommittedOffset]], wanted: Wanted
) -> Iterator[tuple[str, list[tuple[int, CommittedOffset]]]]:
    if wanted.topics is None:
        for name in sorted(committed):
            yield name, sorted(committed[name].items())
        return
    for topic in wanted.topics:
        known = committed.get(topic.name, {})
        yield (
            topic.name,
            [(index, known.get(index, NOT_COMMITTED)) for index in topic.partition_indexes],
        )


def _group(group_id: str, found: Found) -> OffsetFetchResponseGroup:
    return OffsetFetchResponseGroup(
        group_id=group_id,
        error_code=found.code,
        topics=[
            OffsetFetchResponseTopics(
                name=name,
                partitions=[
                    OffsetFetchResponsePartitions(
                        partition_index=index,
                        committed_offset=offset.offset,
                        committed_leader_epoch=offset.leader_epoch,
                        metadata=offset.metadata,
                    )
                    for index, offset in partitions
                ],
            )
            for name, partitions in found.topics
        ],
    )


def _single(found: Found, wanted: Wanted, version: int) -> OffsetFetchResponse:
    topics = found.topics
    if found.code is not ErrorCode.NONE and version < GROUP_ERROR_SINCE:
        topics = list(_select({}, wanted))
    return OffsetFetchResponse(
        error_code=found.code,
        topics=[
            OffsetFetchResponseTopic(
                name=name,
                partitions=[
                    OffsetFetchResponsePartition(
                        partition_index=index,
                        committed_offset=offset.offset,
                        committed_leader_epoch=offset.leader_epoch,
                        metadata=offset.metadata,
                        error_code=found.code,
                    )
                    for index, offset in partitions
                ],
            )
            for name, partitions in topics
        ],
    )
