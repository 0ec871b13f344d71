"""OffsetForLeaderEpoch v2-4: where a leader epoch ended, for clients that look for truncation.

Source: KafkaApis.handleOffsetForLeaderEpochRequest; reference Kafka 5.4.
"""

from tailrace.broker.context import RequestContext
from tailrace.broker.errors import KafkaError
from tailrace.broker.handlers import handles
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
    pace = ctx.pace()
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=[
                    await _end(ctx, topic.topic, each)
                    async for each in pace.each(topic.partitions, PARTITION_UNITS)
                ],
            )
            async for topic in pace.each(request.topics)
        ]
    )


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
