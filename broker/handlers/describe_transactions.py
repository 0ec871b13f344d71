"""DescribeTransactions: what is known of transactional ids."""

from broker.context import RequestContext
from broker.handlers import handles
from protocol.kafka.apis import DESCRIBE_TRANSACTIONS
from protocol.kafka.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)


@handles(DESCRIBE_TRANSACTIONS)
def describe_transactions(
    ctx: RequestContext, request: DescribeTransactionsRequest
) -> DescribeTransactionsResponse:
    """DescribeTransactions v0. Errors: of each id: 42 for "", 14, 16, 105 for one that is unknown.

    Source: KafkaApis.handleDescribeTransactionsRequest.
    """
    coordinator = ctx.broker.transactions
    return DescribeTransactionsResponse(
        transaction_states=[coordinator.describe(each) for each in request.transactional_ids]
    )
