"""InitProducerId v0-5: an id for an idempotent producer.

Transactions are not there yet. With a transactional id the answer is
TRANSACTIONAL_ID_AUTHORIZATION_FAILED: clients stop at once and say so, where most other codes make
them retry until their timeout. Source: reference Kafka 4.3.
"""

from broker.context import RequestContext
from broker.handlers import handles
from protocol.errors import ErrorCode
from protocol.kafka.apis import INIT_PRODUCER_ID
from protocol.kafka.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse


@handles(INIT_PRODUCER_ID)
async def init_producer_id(
    ctx: RequestContext, request: InitProducerIdRequest
) -> InitProducerIdResponse:
    """Give a new producer id with epoch 0.

    A producer that recovers (v3 and later name the id it had) gets a new id as well, as in Kafka.
    An id without its epoch, or an epoch without its id: INVALID_REQUEST.
    """
    if (request.producer_id == -1) != (request.producer_epoch == -1):
        return InitProducerIdResponse(
            error_code=ErrorCode.INVALID_REQUEST, producer_id=-1, producer_epoch=-1
        )
    if request.transactional_id is not None:
        code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        if not request.transactional_id:
            code = ErrorCode.INVALID_REQUEST
        return InitProducerIdResponse(error_code=code, producer_id=-1, producer_epoch=-1)
    return InitProducerIdResponse(
        producer_id=await ctx.broker.producer_ids.take(), producer_epoch=0
    )
