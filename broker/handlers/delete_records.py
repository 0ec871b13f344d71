"""DeleteRecords v0-2: give up the records before an offset.

Source: ReplicaManager.deleteRecords; reference Kafka 5.8.
"""

from tailrace.broker.context import RequestContext
from tailrace.broker.errors import KafkaError, error_code
from tailrace.broker.handlers import handles
from tailrace.broker.partition.trimming import delete_records
from tailrace.core.access.acls.model import Operation, ResourceType
from tailrace.core.errors import CoreError
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.ids import TopicPartition
from tailrace.protocol.kafka.apis import DELETE_RECORDS
from tailrace.protocol.kafka.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

PARTITION_UNITS = 5
"""What it takes to find one partition."""


@handles(DELETE_RECORDS)
async def delete(ctx: RequestContext, request: DeleteRecordsRequest) -> DeleteRecordsResponse:
    """Move each partition's log start; the answer is its new low watermark, on disk."""
    pace = ctx.pace()
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                name=topic.name,
                partitions=[
                    await _delete(ctx, topic.name, each)
                    async for each in pace.each(topic.partitions, PARTITION_UNITS)
                ],
            )
            async for topic in pace.each(request.topics)
        ]
    )


async def _delete(
    ctx: RequestContext, topic: str, wanted: DeleteRecordsPartition
) -> DeleteRecordsPartitionResult:
    index = wanted.partition_index
    try:
        start = await _delete_from(ctx, TopicPartition(topic, index), wanted.offset)
    except (KafkaError, CoreError) as error:
        code = error_code(error)
        return DeleteRecordsPartitionResult(
            partition_index=index, low_watermark=-1, error_code=code
        )
    return DeleteRecordsPartitionResult(partition_index=index, low_watermark=start)


async def _delete_from(ctx: RequestContext, partition: TopicPartition, offset: int) -> int:
    if code := ctx.refusal(Operation.DELETE, ResourceType.TOPIC, partition.topic):
        raise KafkaError(code)
    topic = ctx.broker.topics.get(partition.topic)
    is_there = ctx.broker.partitions.exists(*partition)
    if topic is not None and topic.internal and is_there:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, partition.topic)
    return await delete_records(await ctx.broker.partitions.open(partition), offset)
