"""CreateDelegationToken, API 38, v1-3 (KIP-48, KIP-373).

Kept: Kafka's checks in their order, its times, its HMAC. Not kept: an owner that is not a user is
refused, since a token's bearer is one; there are bounds on tokens and renewers.
Source: KafkaApis.handleCreateTokenRequest, DelegationTokenControlManager.createDelegationToken.
"""

from tailrace.broker.context import RequestContext
from tailrace.broker.errors import KafkaError
from tailrace.broker.handlers import handles
from tailrace.broker.handlers._tokens import check_may_ask, refusals
from tailrace.core.access.acls.model import Operation, ResourceType
from tailrace.core.access.tokens.token import RENEWERS_MAX, Wanted
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.kafka.apis import CREATE_DELEGATION_TOKEN
from tailrace.protocol.kafka.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)


@handles(CREATE_DELEGATION_TOKEN)
async def create_delegation_token(
    ctx: RequestContext, request: CreateDelegationTokenRequest
) -> CreateDelegationTokenResponse:
    """Make a token; it is on disk before the answer."""
    requester = ctx.connection.requester.principal
    owner = requester
    if request.owner_principal_name:
        owner = f"{request.owner_principal_type}:{request.owner_principal_name}"
    answer = CreateDelegationTokenResponse()
    answer.principal_type, _, answer.principal_name = owner.partition(":")
    kind, _, name = requester.partition(":")
    answer.token_requester_principal_type, answer.token_requester_principal_name = kind, name
    try:
        await _create(ctx, request, owner, answer)
    except KafkaError as error:
        answer.error_code = error.code
    return answer


async def _create(
    ctx: RequestContext,
    request: CreateDelegationTokenRequest,
    owner: str,
    answer: CreateDelegationTokenResponse,
) -> None:
    check_may_ask(ctx)
    requester = ctx.connection.requester.principal
    if owner != requester and not ctx.allows(Operation.CREATE_TOKENS, ResourceType.USER, owner):
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED)
    named = request.renewers[: RENEWERS_MAX + 1]
    renewers = tuple(f"{each.principal_type}:{each.principal_name}" for each in named)
    tokens = ctx.broker.tokens
    with refusals():
        token = await tokens.create(Wanted(owner, requester, renewers, request.max_lifetime_ms))
    answer.issue_timestamp_ms = token.issued_ms
    answer.expiry_timestamp_ms = token.expires_ms
    answer.max_timestamp_ms = token.ends_ms
    answer.token_id = token.token_id
    answer.hmac = tokens.hmac_of(token.token_id)
