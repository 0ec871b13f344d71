"""DescribeTopicPartitions v0: partitions page by page, in order of topic name and index.

Source: DescribeTopicPartitionsRequestHandler; KIP-966.
"""

from broker.cluster.names import name_fault
from broker.cluster.operations import TOPIC_OPERATIONS
from broker.cluster.topic import Topic
from broker.context import RequestContext
from broker.handlers import handles
from broker.handlers._places import NO_LEADER, partition_places
from protocol.errors import ErrorCode
from protocol.kafka.apis import DESCRIBE_TOPIC_PARTITIONS
from protocol.kafka.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)

PARTITIONS_MAX = 2000
"""Partitions in one answer, whatever is asked for (max.request.partition.size.limit)."""


@handles(DESCRIBE_TOPIC_PARTITIONS)
def describe_topic_partitions(
    ctx: RequestContext, request: DescribeTopicPartitionsRequest
) -> DescribeTopicPartitionsResponse:
    """Describe the named topics, or all, from the cursor on; `next_cursor`: where to go on."""
    topics = ctx.broker.topics
    if not _is_sound(request):
        return DescribeTopicPartitionsResponse(
            topics=[
                DescribeTopicPartitionsResponseTopic(
                    error_code=ErrorCode.INVALID_REQUEST, name=each.name
                )
                for each in request.topics
            ]
        )
    names = {each.name for each in request.topics} or {topic.name for topic in topics.all()}
    cursor = request.cursor
    room = min(max(request.response_partition_limit, 1), PARTITIONS_MAX)
    answers: list[DescribeTopicPartitionsResponseTopic] = []
    for name in sorted(names):
        if cursor is not None and name < cursor.topic_name:
            continue
        first = cursor.partition_index if cursor is not None and name == cursor.topic_name else 0
        if room == 0:
            return DescribeTopicPartitionsResponse(
                topics=answers, next_cursor=Cursor(topic_name=name, partition_index=first)
            )
        topic = topics.get(name)
        if topic is None:
            answers.append(_missing(name))
            continue
        end = min(topic.partition_count, first + room)
        answers.append(_describe(ctx, topic, range(first, end)))
        room -= len(answers[-1].partitions)
        if end < topic.partition_count:
            return DescribeTopicPartitionsResponse(
                topics=answers, next_cursor=Cursor(topic_name=name, partition_index=end)
            )
    return DescribeTopicPartitionsResponse(topics=answers)


def _is_sound(request: DescribeTopicPartitionsRequest) -> bool:
    """Check the cursor: a partition that can be, and one of the topics that are asked for."""
    cursor = request.cursor
    if cursor is None:
        return True
    names = {each.name for each in request.topics}
    return cursor.partition_index >= 0 and (not names or cursor.topic_name in names)


def _describe(
    ctx: RequestContext, topic: Topic, indexes: range
) -> DescribeTopicPartitionsResponseTopic:
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
        for index, place in zip(indexes, partition_places(ctx, topic, indexes), strict=True)
    ]
    return DescribeTopicPartitionsResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.internal,
        partitions=partitions,
        topic_authorized_operations=TOPIC_OPERATIONS,
    )


def _missing(name: str) -> DescribeTopicPartitionsResponseTopic:
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if name_fault(name) is not None:
        code = ErrorCode.INVALID_TOPIC_EXCEPTION
    return DescribeTopicPartitionsResponseTopic(
        error_code=code, name=name, topic_authorized_operations=TOPIC_OPERATIONS
    )
