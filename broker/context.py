"""What a handler knows about the request it answers."""

from typing import TYPE_CHECKING, Final

import msgspec

from tailrace.broker.authorization.required import DENIED
from tailrace.broker.broker import Broker
from tailrace.broker.listeners import ConnectionInfo
from tailrace.core.access.acls.model import CLUSTER_NAME, Operation, ResourceType
from tailrace.core.access.audit import Action, Door
from tailrace.core.runtime.loop_turns import Pace
from tailrace.protocol.errors import ErrorCode
from tailrace.protocol.kafka.apis import APIS
from tailrace.protocol.kafka.header import RequestHeader

if TYPE_CHECKING:
    from tailrace.broker.quotas.request_quota import RequestQuota

API_NAMES: Final = {key: api.name for key, api in APIS.items()}


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
        return self.broker.authorizer is None or self._asks(
            Action(operation, resource_type, name), is_named=True
        )

    def allows_any(self, operation: Operation, resource_type: ResourceType) -> bool:
        """Return whether the client may do something with any resource of a type."""
        authorizer = self.broker.authorizer
        return authorizer is None or authorizer.allows_any(
            self.connection.requester, operation, resource_type
        )

    def shows(self, resource_type: ResourceType, name: str) -> bool:
        """Return whether the client may know of a resource, which it did not name.

        The audit log has no line of it: an answer that leaves something out refuses nothing.
        """
        return self.broker.authorizer is None or self._asks(
            Action(Operation.DESCRIBE, resource_type, name), is_named=False
        )

    def may(self, operation: Operation) -> bool:
        """Return whether the client may do something with the cluster; if not, more is asked."""
        return self.broker.authorizer is None or self._asks(
            Action(operation, ResourceType.CLUSTER, CLUSTER_NAME), is_named=False
        )

    def refusal(self, operation: Operation, resource_type: ResourceType, name: str) -> ErrorCode:
        """Return NONE if the client may do something, else the code that says it may not."""
        if self.allows(operation, resource_type, name):
            return ErrorCode.NONE
        return DENIED[resource_type]

    def cluster_refusal(self, operation: Operation) -> ErrorCode:
        """Return the same for what is done with the cluster."""
        return self.refusal(operation, ResourceType.CLUSTER, CLUSTER_NAME)

    def _asks(self, action: Action, *, is_named: bool) -> bool:
        """Ask the authorizer, and note what it says."""
        broker, requester = self.broker, self.connection.requester
        assert broker.authorizer is not None
        allowed = broker.authorizer.allows(requester, *action)
        if broker.audit is not None and (allowed or is_named):
            door = Door(self.connection.listener, API_NAMES.get(self.header.api_key, ""))
            request = (self.connection.port, self.header.correlation_id)
            broker.audit.authorized(requester, door, action, request, allowed=allowed)
        return allowed
