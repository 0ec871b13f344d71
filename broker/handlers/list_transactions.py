"""ListTransactions: the transactional ids that this broker coordinates."""

from dataclasses import replace

from tailrace.broker.context import RequestContext
from tailrace.broker.handlers import handles
from tailrace.broker.transactions.describing import list_filter, unknown_states
from tailrace.core.access.acls.model import ResourceType
from tailrace.core.runtime.expressions import BadExpression, expression
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.kafka.apis import LIST_TRANSACTIONS
from tailrace.protocol.kafka.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
)


@handles(LIST_TRANSACTIONS)
async def list_transactions(
    ctx: RequestContext, request: ListTransactionsRequest
) -> ListTransactionsResponse:
    """ListTransactions v0-2: by state, producer id, time open, and pattern of the whole id.

    Errors: 14 while a partition loads; INVALID_REGULAR_EXPRESSION. States that there are not are
    told back, and let nothing through.
    Source: KafkaApis.handleListTransactionsRequest; TransactionStateManager.listTransactionStates.
    """
    pattern = None
    if request.transactional_id_pattern:
        try:
            pattern = expression(request.transactional_id_pattern)
        except BadExpression:
            return ListTransactionsResponse(error_code=ErrorCode.INVALID_REGULAR_EXPRESSION)
    pace = ctx.pace()
    states = list({name: None async for name in pace.each(request.state_filters)})
    wanted = list_filter(replace(request, state_filters=states), pattern)
    found = await ctx.broker.transactions.list_transactions(wanted, pace)
    if isinstance(found, ErrorCode):
        return ListTransactionsResponse(error_code=found)
    if ctx.broker.authorizer is not None:
        kind, listed = ResourceType.TRANSACTIONAL_ID, pace.each(found)
        found = [each async for each in listed if ctx.shows(kind, each.transactional_id)]
    return ListTransactionsResponse(
        transaction_states=found, unknown_state_filters=unknown_states(states)
    )
