"""AddOffsetsToTxn: take the offsets of a group into a transaction."""

from broker.context import RequestContext
from broker.coordinator.partitioning import OFFSETS_TOPIC, partition_for_group
from broker.handlers import handles
from broker.handlers._transactions import code_for
from broker.transactions.decisions import Producer
from protocol.errors import ErrorCode
from protocol.ids import TopicPartition
from protocol.kafka.apis import ADD_OFFSETS_TO_TXN
from protocol.kafka.messages.add_offsets_to_txn import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
)

FENCED_SINCE = 2


@handles(ADD_OFFSETS_TO_TXN)
async def add_offsets_to_txn(
    ctx: RequestContext, request: AddOffsetsToTxnRequest
) -> AddOffsetsToTxnResponse:
    """AddOffsetsToTxn v0-4: the group's partition of `__consumer_offsets` joins the transaction.

    Errors: as AddPartitionsToTxn; 15 if `__consumer_offsets` cannot be created.
    Source: KafkaApis.handleAddOffsetsToTxnRequest.
    """
    broker = ctx.broker
    code = await broker.groups.prepare(request.group_id)
    topic = broker.topics.get(OFFSETS_TOPIC)
    if code is not ErrorCode.NONE or topic is None:
        return AddOffsetsToTxnResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
    partition = partition_for_group(request.group_id, topic.partition_count)
    code = await broker.transactions.add(
        request.transactional_id,
        Producer(request.producer_id, request.producer_epoch),
        [TopicPartition(OFFSETS_TOPIC, partition)],
        client_version=0,
    )
    return AddOffsetsToTxnResponse(error_code=code_for(code, ctx.header.api_version, FENCED_SINCE))
