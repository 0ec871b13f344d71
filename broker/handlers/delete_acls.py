"""DeleteAcls, API 31, v1-3.

Kept: Kafka's filters; what all filters that are right match goes together; an ACL that several
match is listed under each. Not kept: a code that Kafka closes the connection for (0) is
INVALID_REQUEST.
Source: AclApis.handleDeleteAcls, AclControlManager.deleteAcls.
"""

from typing import Final

from tailrace.broker.context import RequestContext
from tailrace.broker.errors import KafkaError
from tailrace.broker.handlers import handles
from tailrace.broker.handlers._acls import acls_for, change_error, check_count, filter_of
from tailrace.core.access.acls.filters import AclFilter
from tailrace.core.access.acls.model import Acl, Operation
from tailrace.core.access.acls.store import AclStore
from tailrace.core.errors import CoreError
from tailrace.core.runtime.loop_turns import Pace
from tailrace.protocol.kafka.apis import DELETE_ACLS
from tailrace.protocol.kafka.messages.delete_acls import (
    DeleteAclsFilter,
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)

FILTERS_MAX: Final = 1_000
"""Of one request: each that is not about one pattern is compared with all."""
FILTER_UNITS: Final = 2
"""What it takes to read one."""


@handles(DELETE_ACLS)
async def delete_acls(ctx: RequestContext, request: DeleteAclsRequest) -> DeleteAclsResponse:
    """Delete ACLs; on disk, and in force here, before the answer. Needs ALTER on the cluster."""
    pace, filters = ctx.pace(), request.filters
    try:
        acls = acls_for(ctx, Operation.ALTER)
        check_count(len(filters), FILTERS_MAX, "filters")
        valid = [_filter(each) async for each in pace.each(filters, FILTER_UNITS)]
        outcomes = await _delete(acls, valid, pace)
    except CoreError as error:
        outcomes = [change_error(error)] * len(filters)
    except KafkaError as error:
        outcomes = [error] * len(filters)
    return DeleteAclsResponse(
        filter_results=[await _result(each, pace) async for each in pace.each(outcomes)]
    )


def _filter(data: DeleteAclsFilter) -> AclFilter | KafkaError:
    try:
        return filter_of(data)
    except KafkaError as error:
        return error


async def _delete(
    acls: AclStore, filters: list[AclFilter | KafkaError], pace: Pace
) -> list[list[Acl] | KafkaError]:
    """Delete what the valid filters match; return that, and why others are not valid."""
    valid = [each for each in filters if isinstance(each, AclFilter)]
    matched = iter(await acls.delete(valid, pace))
    return [each if isinstance(each, KafkaError) else next(matched) for each in filters]


async def _result(outcome: list[Acl] | KafkaError, pace: Pace) -> DeleteAclsFilterResult:
    if isinstance(outcome, KafkaError):
        return DeleteAclsFilterResult(error_code=outcome.code, error_message=outcome.detail)
    matching = [
        DeleteAclsMatchingAcl(
            error_message=None,
            resource_type=pattern.resource_type,
            resource_name=pattern.name,
            pattern_type=pattern.pattern_type,
            principal=entry.principal,
            host=entry.host,
            operation=entry.operation,
            permission_type=entry.permission,
        )
        async for pattern, entry in pace.each(outcome)
    ]
    return DeleteAclsFilterResult(error_message=None, matching_acls=matching)
