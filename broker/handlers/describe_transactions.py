"""DescribeTransactions: what is known of transactional ids."""

from tailrace.broker.context import RequestContext
from tailrace.broker.handlers import handles
from tailrace.protocol.kafka.apis import DESCRIBE_TRANSACTIONS
from tailrace.protocol.kafka.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)

ID_UNITS = 3
"""What it takes to describe one id."""


@handles(DESCRIBE_TRANSACTIONS)
async def describe_transactions(
    ctx: RequestContext, request: DescribeTransactionsRequest
) -> DescribeTransactionsResponse:
    """DescribeTransactions v0. Errors: of each id: 42 for "", 14, 16, 105 for one that is unknown.

    Source: KafkaApis.handleDescribeTransactionsRequest.
    """
    coordinator = ctx.broker.transactions
    return DescribeTransactionsResponse(
        transaction_states=[
            coordinator.describe(each)
            async for each in ctx.pace().each(dict.fromkeys(request.transactional_ids), ID_UNITS)
        ]
    )
