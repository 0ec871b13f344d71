"""What a client may do with a resource, as the `authorized_operations` fields say it: a bit each.

Source: AclEntry.supportedOperations, AuthHelper.authorizedOperations; KIP-430.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from tailrace.broker.context import RequestContext
from tailrace.core.access.acls.model import CLUSTER_NAME, Operation, ResourceType

SUPPORTED: Final[Mapping[ResourceType, tuple[Operation, ...]]] = MappingProxyType(
    {
        ResourceType.TOPIC: (
            Operation.READ,
            Operation.WRITE,
            Operation.CREATE,
            Operation.DELETE,
            Operation.ALTER,
            Operation.DESCRIBE,
            Operation.DESCRIBE_CONFIGS,
            Operation.ALTER_CONFIGS,
        ),
        ResourceType.GROUP: (
            Operation.READ,
            Operation.DELETE,
            Operation.DESCRIBE,
            Operation.DESCRIBE_CONFIGS,
            Operation.ALTER_CONFIGS,
        ),
        ResourceType.CLUSTER: (
            Operation.CREATE,
            Operation.ALTER,
            Operation.DESCRIBE,
            Operation.CLUSTER_ACTION,
            Operation.DESCRIBE_CONFIGS,
            Operation.ALTER_CONFIGS,
            Operation.IDEMPOTENT_WRITE,
        ),
    }
)
NOT_ASKED: Final = -(1 << 31)
"""What stands there when the request does not ask, and for what is in error."""


def authorized_operations(ctx: RequestContext, resource_type: ResourceType, name: str) -> int:
    """Return what the client may do with a resource. Cost: as many questions as operations."""
    authorizer, requester = ctx.broker.authorizer, ctx.connection.requester
    return sum(
        1 << operation
        for operation in SUPPORTED[resource_type]
        if authorizer is None or authorizer.allows(requester, operation, resource_type, name)
    )


def cluster_operations(ctx: RequestContext) -> int:
    """Return what the client may do with the cluster; 0 if it may not even describe it."""
    if not ctx.may(Operation.DESCRIBE):
        return 0
    return authorized_operations(ctx, ResourceType.CLUSTER, CLUSTER_NAME)
