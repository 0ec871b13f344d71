"""What a handler knows about the request it answers."""

from typing import TYPE_CHECKING

import msgspec

from tailrace.broker.authorization.required import DENIED
from tailrace.broker.broker import Broker
from tailrace.broker.listeners import ConnectionInfo
from tailrace.core.access.acls.model import CLUSTER_NAME, Operation, ResourceType
from tailrace.core.runtime.loop_turns import Pace
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.kafka.header import RequestHeader

if TYPE_CHECKING:
    from tailrace.broker.quotas.request_quota import RequestQuota


class RequestContext(msgspec.Struct, frozen=True):
    """One request: the broker it is for, its header, its connection."""

    broker: Broker
    header: RequestHeader
    connection: ConnectionInfo
    quota: "RequestQuota | None" = None
    """What it is charged to; None for a client without quotas."""

    def pace(self) -> Pace:
        """Return what a handler walks through long requests and answers with."""
        return Pace(self.broker.turns)

    def allows(self, operation: Operation, resource_type: ResourceType, name: str) -> bool:
        """Return whether the client may do something with the resource of a name."""
        authorizer = self.broker.authorizer
        return authorizer is None or authorizer.allows(
            self.connection.requester, operation, resource_type, name
        )

    def allows_any(self, operation: Operation, resource_type: ResourceType) -> bool:
        """Return whether the client may do something with any resource of a type."""
        authorizer = self.broker.authorizer
        return authorizer is None or authorizer.allows_any(
            self.connection.requester, operation, resource_type
        )

    def shows(self, resource_type: ResourceType, name: str) -> bool:
        """Return whether the client may know of a resource, which it did not name."""
        return self.allows(Operation.DESCRIBE, resource_type, name)

    def may(self, operation: Operation) -> bool:
        """Return whether the client may do something with the cluster, as another may be asked."""
        return self.allows(operation, ResourceType.CLUSTER, CLUSTER_NAME)

    def refusal(self, operation: Operation, resource_type: ResourceType, name: str) -> ErrorCode:
        """Return NONE if the client may do something, else the code that says it may not."""
        if self.allows(operation, resource_type, name):
            return ErrorCode.NONE
        return DENIED[resource_type]

    def cluster_refusal(self, operation: Operation) -> ErrorCode:
        """Return the same for what is done with the cluster."""
        return self.refusal(operation, ResourceType.CLUSTER, CLUSTER_NAME)
