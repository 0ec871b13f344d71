"""EndTxn: commit or abort a transaction."""

from tailrace.broker.context import RequestContext
from tailrace.broker.handlers import handles
from tailrace.broker.handlers._transactions import code_for
from tailrace.broker.transactions.decisions import Producer
from tailrace.broker.transactions.metadata import VERSION_2
from tailrace.core.access.acls.model import Operation, ResourceType
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.kafka.apis import END_TXN
from tailrace.protocol.kafka.messages.end_txn import EndTxnRequest, EndTxnResponse

FENCED_SINCE = 2
VERSION_2_SINCE = 5
"""EndTxn versions whose clients take the next epoch from the answer (KIP-890)."""


@handles(END_TXN)
async def end_txn(ctx: RequestContext, request: EndTxnRequest) -> EndTxnResponse:
    """EndTxn v0-5: answered when the outcome is stored; readers see it when markers are written.

    Errors: 49, 90 (47 before v2), 51 while markers are written, 48 where nothing is to be ended so.
    Source: KafkaApis.handleEndTxnRequest; reference/kafka.md 4.4, 4.6.
    """
    version, name = ctx.header.api_version, request.transactional_id
    if code := ctx.refusal(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, name):
        return EndTxnResponse(error_code=code)
    result = await ctx.broker.transactions.end(
        name,
        Producer(request.producer_id, request.producer_epoch),
        VERSION_2 if version >= VERSION_2_SINCE else 0,
        committed=request.committed,
    )
    if isinstance(result, ErrorCode):
        return EndTxnResponse(error_code=code_for(result, version, FENCED_SINCE))
    return EndTxnResponse(producer_id=result.producer_id, producer_epoch=result.epoch)
