"""ExpireDelegationToken, API 40, v1-2 (KIP-48): Kafka's checks in their order.

Source: KafkaApis.handleExpireTokenRequest, DelegationTokenControlManager.expireDelegationToken.
"""

from tailrace.broker.context import RequestContext
from tailrace.broker.handlers import handles
from tailrace.broker.handlers._tokens import check_may_ask, refusals
from tailrace.protocol.kafka.apis import EXPIRE_DELEGATION_TOKEN
from tailrace.protocol.kafka.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)


@handles(EXPIRE_DELEGATION_TOKEN)
async def expire_delegation_token(
    ctx: RequestContext, request: ExpireDelegationTokenRequest
) -> ExpireDelegationTokenResponse:
    """Have a token end, at once or later; on disk before the answer."""
    check_may_ask(ctx)
    principal = ctx.connection.requester.principal
    with refusals():
        expires_ms = await ctx.broker.tokens.expire(
            bytes(request.hmac), principal, request.expiry_time_period_ms
        )
    return ExpireDelegationTokenResponse(expiry_timestamp_ms=expires_ms)
