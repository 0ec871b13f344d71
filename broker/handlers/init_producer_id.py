"""InitProducerId: an id for an idempotent producer, or the next epoch of a transactional one."""

from tailrace.broker.context import RequestContext
from tailrace.broker.handlers import handles
from tailrace.broker.handlers._transactions import code_for
from tailrace.broker.transactions.decisions import Producer
from tailrace.broker.transactions.metadata import NO_EPOCH, NO_PRODUCER_ID
from tailrace.core.access.acls.model import Operation, ResourceType
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.kafka.apis import INIT_PRODUCER_ID
from tailrace.protocol.kafka.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)

FENCED_SINCE = 4


@handles(INIT_PRODUCER_ID)
async def init_producer_id(
    ctx: RequestContext, request: InitProducerIdRequest
) -> InitProducerIdResponse:
    """InitProducerId v0-5.

    Without a transactional id: a new producer id with epoch 0; a producer that recovers (v3 and
    later name the id it had) gets a new one as well. With one: the coordinator decides, and aborts
    what is open first (CONCURRENT_TRANSACTIONS: ask again).
    An id without its epoch, or an epoch without its id: INVALID_REQUEST.
    Source: KafkaApis.handleInitProducerIdRequest; reference/kafka.md 4.3.
    """
    if code := _refusal(ctx, request.transactional_id):
        return _refused(code)
    has_id, has_epoch = request.producer_id != NO_PRODUCER_ID, request.producer_epoch != NO_EPOCH
    if has_id != has_epoch:
        return _refused(ErrorCode.INVALID_REQUEST)
    if request.transactional_id is None:
        return InitProducerIdResponse(
            producer_id=await ctx.broker.producer_ids.take(), producer_epoch=0
        )
    producer = Producer(request.producer_id, request.producer_epoch)
    result = await ctx.broker.transactions.init_producer_id(
        request.transactional_id, request.transaction_timeout_ms, producer if has_id else None
    )
    if isinstance(result, ErrorCode):
        return _refused(code_for(result, ctx.header.api_version, FENCED_SINCE))
    return InitProducerIdResponse(producer_id=result.producer_id, producer_epoch=result.epoch)


def _refusal(ctx: RequestContext, transactional_id: str | None) -> ErrorCode:
    """Say whether the client may have a producer id: who may write to any topic may (KIP-679)."""
    if transactional_id is not None:
        return ctx.refusal(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id)
    if ctx.may(Operation.IDEMPOTENT_WRITE) or ctx.allows_any(Operation.WRITE, ResourceType.TOPIC):
        return ErrorCode.NONE
    return ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def _refused(code: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(
        error_code=code, producer_id=NO_PRODUCER_ID, producer_epoch=NO_EPOCH
    )
