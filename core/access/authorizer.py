"""What every door asks before it does something: whether the requester may."""

from collections.abc import Callable
from typing import Protocol

from tailrace.core.access.acls.model import Operation, ResourceType
from tailrace.core.access.requester import Requester


class Authorizer(Protocol):
    """Decides at once, from memory."""

    @property
    def version(self) -> int:
        """Rises with each change of what is allowed: what waits and was allowed asks again."""

    def listen(self, changed: Callable[[], None]) -> None:
        """Call `changed` after each change, at once: for what waits."""

    def allows(
        self, requester: Requester, operation: Operation, resource_type: ResourceType, name: str
    ) -> bool:
        """Return whether a principal may do something with the resource of a name.

        Source: Kafka's Authorizer.authorize with one action. Cost: some microseconds.
        """

    def allows_any(
        self, requester: Requester, operation: Operation, resource_type: ResourceType
    ) -> bool:
        """Return whether a principal may do something with any resource of a type.

        Source: Kafka's Authorizer.authorizeByResourceType (KIP-679).
        """
