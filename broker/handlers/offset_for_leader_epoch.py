"""OffsetForLeaderEpoch v2-4: where a leader epoch ended, for clients that look for truncation.

Source: KafkaApis.handleOffsetForLeaderEpochRequest; reference Kafka 5.4.
"""

from tailrace.broker.context import RequestContext
from tailrace.broker.errors import KafkaError
from tailrace.broker.handlers import handles
from tailrace.core.access.acls.model import Operation, ResourceType
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.ids import TopicPartition
from tailrace.protocol.kafka.apis import OFFSET_FOR_LEADER_EPOCH
from tailrace.protocol.kafka.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)

PARTITION_UNITS = 3
"""What it takes to find one partition."""


@handles(OFFSET_FOR_LEADER_EPOCH)
async def offset_for_leader_epoch(
    ctx: RequestContext, request: OffsetForLeaderEpochRequest
) -> OffsetForLeaderEpochResponse:
    """Answer each partition on its own; (-1, -1) where the epoch was never."""
    pace, is_broker = ctx.pace(), ctx.may(Operation.CLUSTER_ACTION)
    topics = []
    async for topic in pace.each(request.topics):
        name, code = topic.topic, ErrorCode.NONE
        if not is_broker:
            code = ctx.refusal(Operation.DESCRIBE, ResourceType.TOPIC, name)
        ends = [
            EpochEndOffset(partition=each.partition, error_code=code)
            if code
            else await _end(ctx, name, each)
            async for each in pace.each(topic.partitions, PARTITION_UNITS)
        ]
        topics.append(OffsetForLeaderTopicResult(topic=name, partitions=ends))
    return OffsetForLeaderEpochResponse(topics=topics)


async def _end(ctx: RequestContext, topic: str, wanted: OffsetForLeaderPartition) -> EpochEndOffset:
    index = wanted.partition
    try:
        log = await ctx.broker.partitions.open(TopicPartition(topic, index))
    except KafkaError as error:
        return EpochEndOffset(partition=index, error_code=error.code)
    code = log.check_epoch(wanted.current_leader_epoch)
    if code is not ErrorCode.NONE:
        return EpochEndOffset(partition=index, error_code=code)
    epoch, end = log.end_of_epoch(wanted.leader_epoch)
    return EpochEndOffset(partition=index, leader_epoch=epoch, end_offset=end)
