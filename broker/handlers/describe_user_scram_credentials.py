"""DescribeUserScramCredentials, API 50, v0: which users log in by SCRAM, by which mechanisms.

Kept: none named is all; one that is not there is RESOURCE_NOT_FOUND, one that is named twice
DUPLICATE_RESOURCE. kafka-configs asks this whenever it describes users, for their quotas too.
Source: org.apache.kafka.metadata.ScramImage.describe.
"""

from tailrace.broker.authorization.required import WHY
from tailrace.broker.context import RequestContext
from tailrace.broker.handlers import handles
from tailrace.broker.handlers._names import in_order, repeated
from tailrace.core.access.acls.model import Operation
from tailrace.core.access.users.codec import Credentials
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.kafka.apis import DESCRIBE_USER_SCRAM_CREDENTIALS
from tailrace.protocol.kafka.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)


@handles(DESCRIBE_USER_SCRAM_CREDENTIALS)
async def describe_user_scram_credentials(
    ctx: RequestContext, request: DescribeUserScramCredentialsRequest
) -> DescribeUserScramCredentialsResponse:
    """Say of each user which credentials it has."""
    users, pace = ctx.broker.users, ctx.pace()
    if code := ctx.cluster_refusal(Operation.DESCRIBE):
        refused = [
            DescribeUserScramCredentialsResult(
                user=user.name, error_code=code, error_message=WHY[code]
            )
            async for user in pace.each(request.users or ())
        ]
        return DescribeUserScramCredentialsResponse(
            error_code=code, error_message=WHY[code], results=refused
        )
    names = [user.name for user in request.users or ()]
    twice = await repeated(names, pace)
    wanted = dict.fromkeys(names) if names else await in_order(list(users), pace)
    return DescribeUserScramCredentialsResponse(
        error_message="",
        results=[
            _result(name, None if name in twice else users.get(name), is_twice=name in twice)
            async for name in pace.each(wanted)
        ],
    )


def _result(
    name: str, credentials: Credentials | None, *, is_twice: bool
) -> DescribeUserScramCredentialsResult:
    if credentials:
        infos = [
            CredentialInfo(mechanism=mechanism, iterations=each.iterations)
            for mechanism, each in sorted(credentials.items())
        ]
        return DescribeUserScramCredentialsResult(user=name, credential_infos=infos)
    code = ErrorCode.RESOURCE_NOT_FOUND
    message = f"Attempt to describe a user credential that does not exist: {name}"
    if is_twice:
        code = ErrorCode.DUPLICATE_RESOURCE
        message = f"Cannot describe SCRAM credentials for the same user twice: {name}"
    return DescribeUserScramCredentialsResult(user=name, error_code=code, error_message=message)
