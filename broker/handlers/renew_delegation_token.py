"""RenewDelegationToken, API 39, v1-2 (KIP-48): Kafka's checks in their order.

Source: KafkaApis.handleRenewTokenRequest, DelegationTokenControlManager.renewDelegationToken.
"""

from tailrace.broker.context import RequestContext
from tailrace.broker.handlers import handles
from tailrace.broker.handlers._tokens import check_may_ask, refusals
from tailrace.protocol.kafka.apis import RENEW_DELEGATION_TOKEN
from tailrace.protocol.kafka.messages.renew_delegation_token import (
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)


@handles(RENEW_DELEGATION_TOKEN)
async def renew_delegation_token(
    ctx: RequestContext, request: RenewDelegationTokenRequest
) -> RenewDelegationTokenResponse:
    """Have a token be good for longer; on disk before the answer."""
    check_may_ask(ctx)
    principal = ctx.connection.requester.principal
    with refusals():
        expires_ms = await ctx.broker.tokens.renew(
            bytes(request.hmac), principal, request.renew_period_ms
        )
    return RenewDelegationTokenResponse(expiry_timestamp_ms=expires_ms)
