"""CreateAcls, API 30, v1-3.

Kept: Kafka's checks, in its order; all that are right are made together; what is there already is
no error. Not kept: a code that Kafka closes the connection for (0) is INVALID_REQUEST; names,
principals and hosts have a length that they may not exceed.
Source: AclApis.handleCreateAcls, AclControlManager.validateNewAcl.
"""

from typing import Final

from tailrace.broker.context import RequestContext
from tailrace.broker.errors import KafkaError
from tailrace.broker.handlers import handles
from tailrace.broker.handlers._acls import acls_for, change_error, check_count, member_of
from tailrace.core.access.acls.model import (
    CLUSTER_NAME,
    Acl,
    Entry,
    Operation,
    Pattern,
    PatternType,
    Permission,
    ResourceType,
)
from tailrace.core.access.acls.store import CHANGED_MAX
from tailrace.core.errors import CoreError
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.kafka.apis import CREATE_ACLS
from tailrace.protocol.kafka.messages.create_acls import (
    AclCreation,
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
)

TEXT_BYTES_MAX: Final = 1_000
"""Of a resource's name, a principal, a host."""


@handles(CREATE_ACLS)
async def create_acls(ctx: RequestContext, request: CreateAclsRequest) -> CreateAclsResponse:
    """Add ACLs; on disk, and in force here, before the answer. Needs ALTER on the cluster."""
    pace = ctx.pace()
    outcomes: list[Acl | KafkaError] = []
    try:
        acls = acls_for(ctx, Operation.ALTER)
        check_count(len(request.creations), CHANGED_MAX, "creations")
    except KafkaError as error:
        outcomes = [error] * len(request.creations)
    else:
        outcomes = [_acl(each) async for each in pace.each(request.creations)]
        valid = [each for each in outcomes if isinstance(each, Acl)]
        try:
            await acls.create(valid, pace)
        except CoreError as error:
            failure = change_error(error)
            outcomes = [failure if isinstance(each, Acl) else each for each in outcomes]
    return CreateAclsResponse(results=[_result(each) async for each in pace.each(outcomes)])


def _acl(data: AclCreation) -> Acl | KafkaError:
    """Return what is to be made, or why it is not."""
    pattern = Pattern(
        member_of(ResourceType, data.resource_type),
        data.resource_name,
        member_of(PatternType, data.resource_pattern_type),
    )
    entry = Entry(
        data.principal,
        data.host,
        member_of(Operation, data.operation),
        member_of(Permission, data.permission_type),
    )
    reason = _why_no_pattern(pattern) or _why_no_entry(entry)
    return KafkaError(ErrorCode.INVALID_REQUEST, reason) if reason else Acl(pattern, entry)


def _why_no_pattern(pattern: Pattern) -> str:
    kind = pattern.resource_type
    if kind is ResourceType.CLUSTER and pattern.name != CLUSTER_NAME:
        return f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}"
    if not pattern.name:
        return "Invalid empty resource name"
    if kind in {ResourceType.UNKNOWN, ResourceType.ANY}:
        return f"Invalid resourceType {kind.name}"
    if pattern.pattern_type not in {PatternType.LITERAL, PatternType.PREFIXED}:
        return f"Invalid patternType {pattern.pattern_type.name}"
    return _why_too_long("resource name", pattern.name)


def _why_no_entry(entry: Entry) -> str:
    if entry.operation in {Operation.UNKNOWN, Operation.ANY}:
        return f"Invalid operation {entry.operation.name}"
    if entry.permission not in {Permission.DENY, Permission.ALLOW}:
        return f"Invalid permissionType {entry.permission.name}"
    if ":" not in entry.principal:
        return (
            f"Could not parse principal from `{entry.principal}` "
            "(no colon is present separating the principal type from the principal name)"
        )
    return _why_too_long("principal", entry.principal) or _why_too_long("host", entry.host)


def _why_too_long(what: str, text: str) -> str:
    if len(text.encode()) <= TEXT_BYTES_MAX:
        return ""
    return f"The {what} is longer than {TEXT_BYTES_MAX} bytes"


def _result(outcome: Acl | KafkaError) -> AclCreationResult:
    if isinstance(outcome, KafkaError):
        return AclCreationResult(error_code=outcome.code, error_message=outcome.detail)
    return AclCreationResult(error_message=None)
