"""DescribeProducers v0: who writes to a partition, and where their open transactions begin.

A producer without a batch in its epoch has last sequence -1, without a marker coordinator epoch -1,
without a transaction start offset -1. The last timestamp is the broker's, of the last append.
Source: KafkaApis.handleDescribeProducersRequest, UnifiedLog.activeProducers; reference Kafka 7.3.
"""

from tailrace.broker.authorization.required import WHY
from tailrace.broker.cluster.names import name_fault
from tailrace.broker.context import RequestContext
from tailrace.broker.errors import KafkaError, error_code
from tailrace.broker.handlers import handles
from tailrace.broker.partition.producer_state import ActiveProducer
from tailrace.core.access.acls.model import Operation, ResourceType
from tailrace.core.runtime.loop_turns import Pace
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.ids import TopicPartition
from tailrace.protocol.kafka.apis import DESCRIBE_PRODUCERS
from tailrace.protocol.kafka.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)


@handles(DESCRIBE_PRODUCERS)
async def describe_producers(
    ctx: RequestContext, request: DescribeProducersRequest
) -> DescribeProducersResponse:
    """List the producers of each partition; one that is named again is answered once."""
    pace = ctx.pace()
    named: dict[str, dict[int, None]] = {}
    async for topic in pace.each(request.topics):
        indexes = named.setdefault(topic.name, {})
        async for index in pace.each(topic.partition_indexes):
            indexes[index] = None
    return DescribeProducersResponse(
        topics=[
            TopicResponse(
                name=name,
                partitions=[
                    await _describe(ctx, TopicPartition(name, index), pace)
                    async for index in pace.each(indexes)
                ],
            )
            async for name, indexes in pace.each(named.items())
        ]
    )


async def _describe(
    ctx: RequestContext, partition: TopicPartition, pace: Pace
) -> PartitionResponse:
    index = partition.partition
    if name_fault(partition.topic) is not None:
        code = ErrorCode.INVALID_TOPIC_EXCEPTION
        return PartitionResponse(partition_index=index, error_code=code)
    if code := ctx.refusal(Operation.READ, ResourceType.TOPIC, partition.topic):
        return PartitionResponse(partition_index=index, error_code=code, error_message=WHY[code])
    try:
        log = await ctx.broker.partitions.open(partition)
    except KafkaError as error:
        return PartitionResponse(partition_index=index, error_code=error_code(error))
    producers = [_state(each) async for each in pace.each(log.producers())]
    return PartitionResponse(partition_index=index, active_producers=producers)


def _state(producer: ActiveProducer) -> ProducerState:
    return ProducerState(
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        last_sequence=producer.last_sequence,
        last_timestamp=producer.active_ms,
        coordinator_epoch=producer.coordinator_epoch,
        current_txn_start_offset=producer.first_offset,
    )
