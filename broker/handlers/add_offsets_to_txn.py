"""AddOffsetsToTxn: take the offsets of a group into a transaction."""

from tailrace.broker.context import RequestContext
from tailrace.broker.handlers import handles
from tailrace.broker.handlers._transactions import code_for
from tailrace.broker.transactions.decisions import Producer
from tailrace.core.access.acls.model import Operation, ResourceType
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.kafka.apis import ADD_OFFSETS_TO_TXN
from tailrace.protocol.kafka.messages.add_offsets_to_txn import (
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
    broker, name = ctx.broker, request.transactional_id
    if refusal := (
        ctx.refusal(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, name)
        or ctx.refusal(Operation.READ, ResourceType.GROUP, request.group_id)
    ):
        return AddOffsetsToTxnResponse(error_code=refusal)
    partition = await broker.groups.find(request.group_id)
    if isinstance(partition, ErrorCode):
        return AddOffsetsToTxnResponse(error_code=partition)
    code = await broker.transactions.add(
        name,
        Producer(request.producer_id, request.producer_epoch),
        [partition],
        client_version=0,
    )
    return AddOffsetsToTxnResponse(error_code=code_for(code, ctx.header.api_version, FENCED_SINCE))
