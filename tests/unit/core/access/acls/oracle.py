"""Kafka's rules of access control lists, read off KIP-11, 140, 290 and 679, over a plain list.

No index, no masks: each question walks the whole list. What is compared with it shares no code.
"""

from collections.abc import Collection, Sequence
from random import Random
from typing import NamedTuple

from tailrace.core.access.acls.authorizer import AclAuthorizer
from tailrace.core.access.acls.model import (
    Acl,
    Entry,
    Operation,
    Pattern,
    PatternType,
    Permission,
    ResourceType,
)
from tailrace.core.access.requester import Requester

IMPLIED_BY = {
    Operation.DESCRIBE: {Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER},
    Operation.DESCRIBE_CONFIGS: {Operation.ALTER_CONFIGS},
}


class Oracle(NamedTuple):
    """One state of a cluster's access control."""

    acls: Sequence[Acl]
    super_users: Collection[str] = ()
    is_open: bool = False
    """allow.everyone.if.no.acl.found"""

    def allows(
        self, requester: Requester, operation: Operation, kind: ResourceType, name: str
    ) -> bool:
        if requester.principal in self.super_users:
            return True
        matching = [acl for acl in self.acls if is_about(acl.pattern, kind, name)]
        if not matching:
            return self.is_open
        mine = [acl.entry for acl in matching if speaks_of(acl.entry, requester)]
        for entry in mine:
            names_it = entry.operation in {operation, Operation.ALL}
            if entry.permission is Permission.DENY and names_it:
                return False
        for entry in mine:
            implied = entry.operation in IMPLIED_BY.get(operation, ())
            names_it = entry.operation in {operation, Operation.ALL}
            if entry.permission is Permission.ALLOW and (names_it or implied):
                return True
        return False

    def allows_any(self, requester: Requester, operation: Operation, kind: ResourceType) -> bool:
        if self.allows(requester, operation, kind, "hardcode"):
            return True
        mine = [
            acl
            for acl in self.acls
            if acl.pattern.resource_type is kind
            and speaks_of(acl.entry, requester)
            and acl.entry.operation in {operation, Operation.ALL}
        ]
        denied = [acl.pattern for acl in mine if acl.entry.permission is Permission.DENY]
        allowed = [acl.pattern for acl in mine if acl.entry.permission is Permission.ALLOW]
        everything = Pattern(kind, "*", PatternType.LITERAL)
        if everything in denied:
            return False
        return any(
            pattern == everything or not any(is_dominated(pattern, other) for other in denied)
            for pattern in allowed
        )


def is_about(pattern: Pattern, kind: ResourceType, name: str) -> bool:
    if pattern.resource_type is not kind:
        return False
    if pattern.pattern_type is PatternType.PREFIXED:
        return name.startswith(pattern.name)
    return pattern.name in {name, "*"}


def is_dominated(allowed: Pattern, denied: Pattern) -> bool:
    if denied.pattern_type is PatternType.PREFIXED:
        return allowed.name.startswith(denied.name)
    return allowed == denied


def speaks_of(entry: Entry, requester: Requester) -> bool:
    is_principal = entry.principal in {requester.principal, "User:*"}
    return is_principal and entry.host in {requester.host, "*"}


# -- cases -----------------------------------------------------------------------------------------

PRINCIPALS = ["User:alice", "User:bob", "User:al", "User:CN=eve,O=x:y", "Group:alice", "User:root"]
HOSTS = ["10.0.0.1", "10.0.0.2", "127.0.0.1"]
# No name begins with a character before `*`: for those Kafka 4.3.1 raises StringIndexOutOfBounds or
# does not end, where another pattern of the type begins so (checkSection, from the wildcard on).
NAMES = ["a", "ab", "abc", "abd", "b", "ba", "hardcode", "hard", "a*", "*", "Ä", "abc\U0001f600"]
KINDS = [ResourceType.TOPIC, ResourceType.GROUP]
OPERATIONS = [each for each in Operation if each > Operation.ALL]
OFTEN = [Operation.READ] * 6


class Question(NamedTuple):
    """What is asked; without a name: of any resource of the type."""

    requester: Requester
    operation: Operation
    kind: ResourceType
    name: str | None

    def answer_of(self, decider: "AclAuthorizer | Oracle") -> bool:
        if self.name is None:
            return decider.allows_any(self.requester, self.operation, self.kind)
        return decider.allows(self.requester, self.operation, self.kind, self.name)


def random_acl(random: Random) -> Acl:
    """Return one of few, so that several are about one thing."""
    pattern = Pattern(
        random.choice(KINDS),
        random.choice([*NAMES, "a", "ab", "*", "*"]),
        random.choice([PatternType.LITERAL, PatternType.PREFIXED]),
    )
    entry = Entry(
        random.choice([*PRINCIPALS, "User:alice", "User:alice", "User:*", "User:*"]),
        random.choice([*HOSTS, "*", "*", "*"]),
        random.choice([*OPERATIONS[:6], *OPERATIONS, *OFTEN, Operation.ALL, Operation.ALL]),
        random.choice([Permission.ALLOW, Permission.ALLOW, Permission.DENY]),
    )
    return Acl(pattern, entry)


def random_question(random: Random) -> Question:
    """Return one of those that `random_acl` may be about."""
    return Question(
        Requester(random.choice([*PRINCIPALS, "User:alice", "User:alice"]), random.choice(HOSTS)),
        random.choice([*OPERATIONS[:6], *OPERATIONS, *OFTEN]),
        random.choice(KINDS),
        random.choice([*NAMES, "abcd", None, None, None]),
    )


def use_all(authorizer: AclAuthorizer, acls: Collection[Acl]) -> AclAuthorizer:
    """Give an authorizer all that is in a list, pattern by pattern."""
    by_pattern: dict[Pattern, list[Entry]] = {}
    for pattern, entry in acls:
        by_pattern.setdefault(pattern, []).append(entry)
    for pattern, entries in by_pattern.items():
        authorizer.use(pattern, entries)
    return authorizer
