"""DescribeTransactions: what is known of transactional ids."""

from tailrace.broker.context import RequestContext
from tailrace.broker.handlers import handles
from tailrace.core.access.acls.model import Operation, ResourceType
from tailrace.protocol.kafka.apis import DESCRIBE_TRANSACTIONS
from tailrace.protocol.kafka.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)

ID_UNITS = 3
"""What it takes to describe one id."""


@handles(DESCRIBE_TRANSACTIONS)
async def describe_transactions(
    ctx: RequestContext, request: DescribeTransactionsRequest
) -> DescribeTransactionsResponse:
    """DescribeTransactions v0. Errors: of each id: 42 for "", 14, 16, 53, 105 if it is unknown.

    Source: KafkaApis.handleDescribeTransactionsRequest.
    """
    pace, states = ctx.pace(), []
    async for name in pace.each(dict.fromkeys(request.transactional_ids), ID_UNITS):
        if code := ctx.refusal(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, name):
            states.append(TransactionState(transactional_id=name, error_code=code))
            continue
        state = ctx.broker.transactions.describe(name)
        if ctx.broker.authorizer is not None:
            topics = pace.each(state.topics)
            state.topics = [t async for t in topics if ctx.shows(ResourceType.TOPIC, t.topic)]
        states.append(state)
    return DescribeTransactionsResponse(transaction_states=states)
