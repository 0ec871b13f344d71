"""DescribeTopicPartitions v0: partitions page by page, in order of topic name and index.

Source: DescribeTopicPartitionsRequestHandler; KIP-966.
"""

from collections.abc import Container

from tailrace.broker.cluster.names import name_fault
from tailrace.broker.cluster.topic import Topic
from tailrace.broker.context import RequestContext
from tailrace.broker.handlers import handles
from tailrace.broker.handlers._authorized_operations import authorized_operations
from tailrace.broker.handlers._names import in_order
from tailrace.broker.handlers._places import NO_LEADER, broker_places, partition_places
from tailrace.core.access.acls.model import Operation, ResourceType
from tailrace.core.runtime.loop_turns import Pace
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.kafka.apis import DESCRIBE_TOPIC_PARTITIONS
from tailrace.protocol.kafka.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)

PARTITIONS_MAX = 2000
"""Partitions in one answer, whatever is asked for (max.request.partition.size.limit)."""


@handles(DESCRIBE_TOPIC_PARTITIONS)
async def describe_topic_partitions(
    ctx: RequestContext, request: DescribeTopicPartitionsRequest
) -> DescribeTopicPartitionsResponse:
    """Describe the named topics, or all, from the cursor on; `next_cursor`: where to go on."""
    topics, pace = ctx.broker.topics, ctx.pace()
    if not _is_sound(request):
        return DescribeTopicPartitionsResponse(
            topics=[
                DescribeTopicPartitionsResponseTopic(
                    error_code=ErrorCode.INVALID_REQUEST, name=each.name
                )
                async for each in pace.each(request.topics)
            ]
        )
    names, denied = await _names(ctx, request, pace)
    reachable = {each.node_id for each in broker_places(ctx)}
    cursor = request.cursor
    room = min(max(request.response_partition_limit, 1), PARTITIONS_MAX)
    answers: list[DescribeTopicPartitionsResponseTopic] = []
    async for name in pace.each(await in_order(names, pace)):
        if cursor is not None and name < cursor.topic_name:
            continue
        first = cursor.partition_index if cursor is not None and name == cursor.topic_name else 0
        if room == 0:
            at = Cursor(topic_name=name, partition_index=first)
            return DescribeTopicPartitionsResponse(topics=[*answers, *denied], next_cursor=at)
        topic = topics.get(name)
        if topic is None:
            answers.append(_missing(ctx, name))
            continue
        end = min(topic.partition_count, first + room)
        answers.append(await _describe(ctx, topic, range(first, end), reachable, pace))
        room -= len(answers[-1].partitions)
        if end < topic.partition_count:
            at = Cursor(topic_name=name, partition_index=end)
            return DescribeTopicPartitionsResponse(topics=[*answers, *denied], next_cursor=at)
    return DescribeTopicPartitionsResponse(topics=[*answers, *denied])


async def _names(
    ctx: RequestContext, request: DescribeTopicPartitionsRequest, pace: Pace
) -> tuple[set[str], list[DescribeTopicPartitionsResponseTopic]]:
    """Return the topics that are asked for and may be described, and the answers of the others.

    Those are told with each page, as in Kafka, and have no part in what a page may hold.
    """
    named = dict.fromkeys(each.name for each in request.topics)
    if not named:
        every = pace.each(ctx.broker.topics.all())
        return {t.name async for t in every if ctx.shows(ResourceType.TOPIC, t.name)}, []
    names, denied = set(), []
    async for name in pace.each(named):
        code = ctx.refusal(Operation.DESCRIBE, ResourceType.TOPIC, name)
        if code:
            denied.append(DescribeTopicPartitionsResponseTopic(error_code=code, name=name))
        else:
            names.add(name)
    return names, denied


def _is_sound(request: DescribeTopicPartitionsRequest) -> bool:
    """Check the cursor: a partition that can be, and one of the topics that are asked for."""
    cursor = request.cursor
    if cursor is None:
        return True
    names = {each.name for each in request.topics}
    return cursor.partition_index >= 0 and (not names or cursor.topic_name in names)


async def _describe(
    ctx: RequestContext, topic: Topic, indexes: range, reachable: Container[int], pace: Pace
) -> DescribeTopicPartitionsResponseTopic:
    places = partition_places(ctx, topic, indexes, reachable)
    partitions = [
        DescribeTopicPartitionsResponsePartition(
            error_code=ErrorCode.LEADER_NOT_AVAILABLE
            if place.leader_id == NO_LEADER
            else ErrorCode.NONE,
            partition_index=index,
            leader_id=place.leader_id,
            leader_epoch=place.leader_epoch,
            replica_nodes=place.replicas,
            isr_nodes=place.isr,
            eligible_leader_replicas=(),
            last_known_elr=(),
            offline_replicas=place.offline,
        )
        async for index, place in pace.each(zip(indexes, places, strict=True))
    ]
    return DescribeTopicPartitionsResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.internal,
        partitions=partitions,
        topic_authorized_operations=authorized_operations(ctx, ResourceType.TOPIC, topic.name),
    )


def _missing(ctx: RequestContext, name: str) -> DescribeTopicPartitionsResponseTopic:
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if name_fault(name) is not None:
        code = ErrorCode.INVALID_TOPIC_EXCEPTION
    operations = authorized_operations(ctx, ResourceType.TOPIC, name)
    return DescribeTopicPartitionsResponseTopic(
        error_code=code, name=name, topic_authorized_operations=operations
    )
