"""Decides by access control lists, as Kafka's StandardAuthorizer does: from memory, at once.

    super user                        allowed
    a DENY of the operation or ALL    denied, whatever else is there
    an ALLOW of it, of ALL, or of an operation that implies it    allowed
    nothing of this requester         denied; where no pattern matches at all, as the setting says

Source: org.apache.kafka.metadata.authorizer.StandardAuthorizerData, KIP-11, KIP-290.
"""

from collections.abc import Callable, Iterable
from typing import Final

from tailrace.core.access.acls.model import Entry, Operation, Pattern, ResourceType
from tailrace.core.access.acls.rules import ALLOWED_BY, NAMED_BY, AclRules, Found
from tailrace.core.access.requester import Requester

KEPT_MAX: Final = 10_000
"""Findings that are kept, of each kind; one more and all are found again when they are asked for.
With names of at most `KEPT_NAME_MAX` they take some 10 MB."""
KEPT_NAME_MAX: Final = 256

_ANY_NAME: Final = "hardcode"
"""A resource that no pattern but the wildcard is about; Kafka's own choice, so ours as well."""


class AclAuthorizer:
    """An `Authorizer`. All calls come from the loop."""

    def __init__(
        self, *, super_users: Iterable[str] = (), allow_everyone_without_acl: bool = False
    ) -> None:
        """`super_users`: principals that may do everything, as `User:admin`."""
        self._super_users = frozenset(super_users)
        self._is_open = allow_everyone_without_acl
        self._rules = AclRules()
        self._found: dict[tuple[Requester, ResourceType, str], Found] = {}
        self._any: dict[tuple[Requester, ResourceType, Operation], bool] = {}
        self._version = 0
        self._listeners: list[Callable[[], None]] = []

    @property
    def version(self) -> int:
        """Rises with each change of what is allowed."""
        return self._version

    def listen(self, changed: Callable[[], None]) -> None:
        """Call `changed` after each change, at once: for what waits."""
        self._listeners.append(changed)

    def use(self, pattern: Pattern, entries: Iterable[Entry]) -> None:
        """Replace the entries of a pattern; none: the pattern goes. In force at once."""
        self._rules.use(pattern, entries)
        self._found.clear()
        self._any.clear()
        self._version += 1
        for changed in self._listeners:
            changed()

    def allows(
        self, requester: Requester, operation: Operation, resource_type: ResourceType, name: str
    ) -> bool:
        """Return whether a principal may do something with the resource of a name.

        Cost: 0.5 us when it was asked before, some microseconds when not.
        """
        if requester.principal in self._super_users:
            return True
        key = (requester, resource_type, name)
        found = self._found.get(key)
        if found is None:
            found = self._rules.of(resource_type).found(requester, name)
            if len(name) <= KEPT_NAME_MAX:
                if len(self._found) >= KEPT_MAX:
                    self._found.clear()
                self._found[key] = found
        (deny, allow), is_any = found
        if deny & NAMED_BY[operation]:
            return False
        return bool(allow & ALLOWED_BY[operation]) or (self._is_open and not is_any)

    def allows_any(
        self, requester: Requester, operation: Operation, resource_type: ResourceType
    ) -> bool:
        """Return whether a principal may do something with any resource of a type.

        Source: Authorizer.authorizeByResourceType. Cost: 0.5 us when it was asked before, when not
        0.5 us for each pattern of the type.
        """
        key = (requester, resource_type, operation)
        answer = self._any.get(key)
        if answer is None:
            answer = self.allows(requester, operation, resource_type, _ANY_NAME)
            answer = answer or self._rules.of(resource_type).allows_any(requester, operation)
            if len(self._any) >= KEPT_MAX:
                self._any.clear()
            self._any[key] = answer
        return answer
