"""What the three APIs of access control lists share: codes to values, and who may ask."""

from enum import IntEnum
from typing import Protocol, TypeVar

from tailrace.broker.context import RequestContext
from tailrace.broker.errors import KafkaError, admin_error_code
from tailrace.core.access.acls.filters import AclFilter, EntryFilter, PatternFilter
from tailrace.core.access.acls.model import (
    CLUSTER_NAME,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from tailrace.core.access.acls.store import AclStore
from tailrace.core.errors import CoreError, OverCapacity
from tailrace.protocol.errors import ErrorCode

E = TypeVar("E", bound=IntEnum)


class FilterData(Protocol):
    """A filter as both requests have it."""

    resource_type_filter: int
    resource_name_filter: str | None
    pattern_type_filter: int
    principal_filter: str | None
    host_filter: str | None
    operation: int
    permission_type: int


def member_of(kind: type[E], code: int) -> E:
    """Return what a code on the wire means: UNKNOWN, which is 0, for one that is not known."""
    try:
        return kind(code)
    except ValueError:
        return kind(0)


def filter_of(data: FilterData) -> AclFilter:
    """Return the filter that a request has. Errors: KafkaError for what is not known."""
    wanted = AclFilter(
        PatternFilter(
            member_of(ResourceType, data.resource_type_filter),
            data.resource_name_filter,
            member_of(PatternType, data.pattern_type_filter),
        ),
        EntryFilter(
            data.principal_filter,
            data.host_filter,
            member_of(Operation, data.operation),
            member_of(Permission, data.permission_type),
        ),
    )
    if wanted.pattern.is_unknown:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Unknown patternFilter.")
    if wanted.entry.is_unknown:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Unknown entryFilter.")
    return wanted


def acls_for(ctx: RequestContext, operation: Operation) -> AclStore:
    """Return the ACLs for a client that may do something with the cluster.

    Errors: KafkaError: CLUSTER_AUTHORIZATION_FAILED; SECURITY_DISABLED without an authorizer.
    """
    if not ctx.allows(operation, ResourceType.CLUSTER, CLUSTER_NAME):
        raise KafkaError(
            ErrorCode.CLUSTER_AUTHORIZATION_FAILED, f"Needs {operation.name} on the cluster"
        )
    if ctx.broker.acls is None:
        raise KafkaError(
            ErrorCode.SECURITY_DISABLED,
            "No Authorizer is configured: set authorizer.class.name",
        )
    return ctx.broker.acls


def check_count(count: int, most: int, what: str) -> None:
    """Refuse a request that names too many things. Errors: KafkaError."""
    if count > most:
        raise KafkaError(ErrorCode.POLICY_VIOLATION, f"A request may have at most {most} {what}")


def change_error(error: CoreError) -> KafkaError:
    """Return what the client is answered for a change that was not made."""
    if isinstance(error, OverCapacity):
        return KafkaError(ErrorCode.POLICY_VIOLATION, str(error))
    return KafkaError(admin_error_code(error), str(error))
