"""Filters of access control lists, as DescribeAcls and DeleteAcls have them. Pure.

Source: org.apache.kafka.common.acl.AclBindingFilter, common.resource.ResourcePatternFilter.
"""

from typing import NamedTuple

from tailrace.core.access.acls.model import (
    WILDCARD,
    Entry,
    Operation,
    Pattern,
    PatternType,
    Permission,
    ResourceType,
)


class PatternFilter(NamedTuple):
    """Which patterns are wanted."""

    resource_type: ResourceType
    name: str | None
    """None: any."""
    pattern_type: PatternType
    """MATCH: all patterns that a resource of this name matches, as decisions go by them."""

    @property
    def is_unknown(self) -> bool:
        """Whether it asks for what this release does not know."""
        return (
            self.resource_type is ResourceType.UNKNOWN or self.pattern_type is PatternType.UNKNOWN
        )

    @property
    def only(self) -> Pattern | None:
        """The one pattern that it can match; None: it can match several."""
        is_one_type = self.resource_type not in {ResourceType.ANY, ResourceType.UNKNOWN}
        is_one_kind = self.pattern_type in {PatternType.LITERAL, PatternType.PREFIXED}
        if self.name is None or not is_one_type or not is_one_kind:
            return None
        return Pattern(self.resource_type, self.name, self.pattern_type)

    def matches(self, pattern: Pattern) -> bool:
        """Return whether a stored pattern is wanted."""
        return (
            self.resource_type in {ResourceType.ANY, pattern.resource_type}
            and self.pattern_type in {PatternType.ANY, PatternType.MATCH, pattern.pattern_type}
            and (self.name in {None, pattern.name} or self._covers(pattern))
        )

    def _covers(self, pattern: Pattern) -> bool:
        """Return whether a resource of this name matches a pattern of another name."""
        if self.pattern_type is not PatternType.MATCH or self.name is None:
            return False
        if pattern.pattern_type is PatternType.PREFIXED:
            return self.name.startswith(pattern.name)
        return pattern.name == WILDCARD


class EntryFilter(NamedTuple):
    """Which entries are wanted; None and ANY: every one."""

    principal: str | None
    host: str | None
    operation: Operation
    permission: Permission

    @property
    def is_unknown(self) -> bool:
        """Whether it asks for what this release does not know."""
        return self.operation is Operation.UNKNOWN or self.permission is Permission.UNKNOWN

    def matches(self, entry: Entry) -> bool:
        """Return whether a stored entry is wanted."""
        return (
            self.principal in {None, entry.principal}
            and self.host in {None, entry.host}
            and self.operation in {Operation.ANY, entry.operation}
            and self.permission in {Permission.ANY, entry.permission}
        )


class AclFilter(NamedTuple):
    """Which access control list elements are wanted."""

    pattern: PatternFilter
    entry: EntryFilter
