"""What of a produce its client may write. Not used without an authorizer."""

from tailrace.broker.context import RequestContext
from tailrace.broker.handlers._produce_answers import States, refused
from tailrace.core.access.acls.model import Operation, ResourceType
from tailrace.protocol.errors import BufferUnderflow, ErrorCode
from tailrace.protocol.kafka.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from tailrace.protocol.records.batch import TRANSACTIONAL, unpack_header


def take_unauthorized(ctx: RequestContext, request: ProduceRequest) -> States:
    """Take out what the client may not write; return its answers.

    A batch of a transaction needs the transactional id, and then nothing of the request is written
    without it. A topic whose id is not known has no name here: it is answered later.
    Cost: a question for each topic, of which a request has 6,000 at most.
    Source: KafkaApis.handleProduceRequest.
    """
    name, code = request.transactional_id, ErrorCode.NONE
    if name is not None and _is_transactional(request):
        code = ctx.refusal(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, name)
    taken: States = []
    left: list[TopicProduceData] = []
    for topic in request.topic_data:
        denied = code or _topic_refusal(ctx, topic)
        if denied:
            indexes = [data.index for data in topic.partition_data]
            taken.append((topic, [(index, refused(index, denied)) for index in indexes]))
        else:
            left.append(topic)
    if taken:
        request.topic_data = left
    return taken


def _topic_refusal(ctx: RequestContext, topic: TopicProduceData) -> ErrorCode:
    if not topic.name:
        return ErrorCode.NONE
    return ctx.refusal(Operation.WRITE, ResourceType.TOPIC, topic.name)


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
