"""DescribeDelegationToken, API 41, v1-3 (KIP-48, KIP-373).

Kept: who sees which tokens, also those that are over and not removed yet; no owners at all are no
tokens. Source: KafkaApis.handleDescribeTokensRequest, DelegationTokenManager.filterToken.
"""

from tailrace.broker.context import RequestContext
from tailrace.broker.errors import KafkaError
from tailrace.broker.handlers import handles
from tailrace.broker.handlers._tokens import check_may_ask
from tailrace.core.access.acls.model import Operation, ResourceType
from tailrace.core.access.tokens.token import Token
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.kafka.apis import DESCRIBE_DELEGATION_TOKEN
from tailrace.protocol.kafka.messages.describe_delegation_token import (
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)


@handles(DESCRIBE_DELEGATION_TOKEN)
async def describe_delegation_token(
    ctx: RequestContext, request: DescribeDelegationTokenRequest
) -> DescribeDelegationTokenResponse:
    """Return the tokens that the client may see, with what their bearers log in with."""
    check_may_ask(ctx)
    tokens = ctx.broker.tokens
    if not tokens.is_enabled:
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
    pace = ctx.pace()
    owners = None
    if request.owners is not None:
        owners = {
            f"{each.principal_type}:{each.principal_name}"
            async for each in pace.each(request.owners)
        }
    shown = [
        _described(token, tokens.hmac_of(token.token_id))
        async for token in pace.each(list(tokens))
        if (owners is None or not owners.isdisjoint(token.principals)) and _may_see(ctx, token)
    ]
    return DescribeDelegationTokenResponse(tokens=shown)


def _may_see(ctx: RequestContext, token: Token) -> bool:
    return (
        ctx.connection.requester.principal in token.principals
        or ctx.allows(Operation.DESCRIBE, ResourceType.DELEGATION_TOKEN, token.token_id)
        or ctx.allows(Operation.DESCRIBE_TOKENS, ResourceType.USER, token.owner)
    )


def _described(token: Token, hmac: bytes) -> DescribedDelegationToken:
    kind, _, name = token.owner.partition(":")
    requester_kind, _, requester = token.requester.partition(":")
    return DescribedDelegationToken(
        principal_type=kind,
        principal_name=name,
        token_requester_principal_type=requester_kind,
        token_requester_principal_name=requester,
        issue_timestamp=token.issued_ms,
        expiry_timestamp=token.expires_ms,
        max_timestamp=token.ends_ms,
        token_id=token.token_id,
        hmac=hmac,
        renewers=[
            DescribedDelegationTokenRenewer(principal_type=each[0], principal_name=each[2])
            for each in (renewer.partition(":") for renewer in token.renewers)
        ],
    )
