"""DescribeUserScramCredentials, API 50, v0: there are none, and no way yet to give any.

Kept: all users are an empty list; one that is named is RESOURCE_NOT_FOUND, one that is named twice
DUPLICATE_RESOURCE. kafka-configs asks this whenever it describes users, for their quotas too.
Source: org.apache.kafka.metadata.ScramImage.describe.
"""

from tailrace.broker.authorization.required import WHY
from tailrace.broker.context import RequestContext
from tailrace.broker.handlers import handles
from tailrace.broker.handlers._names import repeated
from tailrace.core.access.acls.model import Operation
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.kafka.apis import DESCRIBE_USER_SCRAM_CREDENTIALS
from tailrace.protocol.kafka.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)


@handles(DESCRIBE_USER_SCRAM_CREDENTIALS)
async def describe_user_scram_credentials(
    ctx: RequestContext, request: DescribeUserScramCredentialsRequest
) -> DescribeUserScramCredentialsResponse:
    """Say of each user that it has no credentials."""
    if code := ctx.cluster_refusal(Operation.DESCRIBE):
        return DescribeUserScramCredentialsResponse(error_code=code, error_message=WHY[code])
    names = [user.name for user in request.users or ()]
    pace = ctx.pace()
    twice = await repeated(names, pace)
    return DescribeUserScramCredentialsResponse(
        error_message="",
        results=[
            _result(name, is_twice=name in twice) async for name in pace.each(dict.fromkeys(names))
        ],
    )


def _result(name: str, *, is_twice: bool) -> DescribeUserScramCredentialsResult:
    code = ErrorCode.RESOURCE_NOT_FOUND
    message = f"Attempt to describe a user credential that does not exist: {name}"
    if is_twice:
        code = ErrorCode.DUPLICATE_RESOURCE
        message = f"Cannot describe SCRAM credentials for the same user twice: {name}"
    return DescribeUserScramCredentialsResult(user=name, error_code=code, error_message=message)
