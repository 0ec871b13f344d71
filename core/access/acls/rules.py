"""What access control entries add up to for one requester and one resource. Pure.

Entries of a pattern become two masks of operations for each (principal, host), so a decision costs
a few look-ups for each pattern that matches, however many entries there are.
Source: org.apache.kafka.metadata.authorizer.StandardAuthorizerData; Authorizer's default
authorizeByResourceType (KIP-679).
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from ipaddress import IPv6Address, ip_address
from typing import Final, NamedTuple, TypeAlias, TypeVar

from tailrace.core.access.acls.model import (
    ANY_PRINCIPAL,
    WILDCARD,
    Entry,
    Operation,
    Pattern,
    PatternType,
    Permission,
    ResourceType,
)
from tailrace.core.access.requester import Requester

T = TypeVar("T")

_ALL: Final = 1 << Operation.ALL

NAMED_BY: Final = {each: _ALL | 1 << each for each in Operation}
"""By operation: the mask of those whose entries name it, itself and ALL."""
ALLOWED_BY: Final = NAMED_BY | {
    Operation.DESCRIBE: NAMED_BY[Operation.DESCRIBE]
    | 1 << Operation.READ
    | 1 << Operation.WRITE
    | 1 << Operation.DELETE
    | 1 << Operation.ALTER,
    Operation.DESCRIBE_CONFIGS: NAMED_BY[Operation.DESCRIBE_CONFIGS] | 1 << Operation.ALTER_CONFIGS,
}
"""By operation: the mask of those that imply it where they are allowed; a DENY implies nothing."""


class Masks(NamedTuple):
    """Operations that entries name: bit n is the operation of code n."""

    deny: int = 0
    allow: int = 0


Rules: TypeAlias = Mapping[tuple[str, str], Masks]
"""Of one pattern, by (principal, host)."""


class Found(NamedTuple):
    """What the entries of all patterns that match a resource say to one requester."""

    masks: Masks
    is_any: bool
    """Whether a pattern matches at all, whatever principals its entries name."""


def comparable_host(host: str) -> str:
    """Return an address in the one form in which addresses are compared.

    IPv6 addresses have several: Java writes 0:0:0:0:0:0:0:1, Python ::1. Anything else stays.
    """
    if ":" not in host:
        return host
    try:
        address = ip_address(host)
    except ValueError:
        return host
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return str(mapped or address)


def rules_of(entries: Iterable[Entry]) -> Rules:
    """Return what a pattern's entries say."""
    rules: dict[tuple[str, str], Masks] = {}
    for principal, host, operation, permission in entries:
        key = (principal, comparable_host(host))
        deny, allow = rules.get(key, Masks())
        if permission is Permission.DENY:
            rules[key] = Masks(deny | 1 << operation, allow)
        else:
            rules[key] = Masks(deny, allow | 1 << operation)
    return rules


def speaking_to(requester: Requester) -> tuple[tuple[str, str], ...]:
    """Return the keys of the rules that speak of a requester."""
    principal, host = requester.principal, comparable_host(requester.host)
    return (
        (principal, host),
        (principal, WILDCARD),
        (ANY_PRINCIPAL, host),
        (ANY_PRINCIPAL, WILDCARD),
    )


class TypeRules:
    """The rules of all patterns of one resource type."""

    def __init__(self) -> None:
        self._literal: dict[str, Rules] = {}
        self._prefixed: dict[str, Rules] = {}
        self._prefixes: Counter[int] = Counter()  # by length: how many there are
        self._lengths: list[int] = []  # of prefixes, sorted

    def use(self, pattern: Pattern, rules: Rules) -> None:
        """Replace the rules of a pattern; no rules: the pattern goes."""
        is_prefixed = pattern.pattern_type is PatternType.PREFIXED
        by_name = self._prefixed if is_prefixed else self._literal
        was_there = by_name.pop(pattern.name, None) is not None
        if rules:
            by_name[pattern.name] = rules
        if is_prefixed and was_there != bool(rules):
            length = len(pattern.name)
            self._prefixes[length] += 1 if rules else -1
            self._prefixes += Counter()  # without those that are gone
            self._lengths = sorted(self._prefixes)

    def found(self, requester: Requester, name: str) -> Found:
        """Return what a requester finds for the resource of a name.

        Cost: 4 look-ups for each pattern that matches, one for each length of prefixes.
        """
        keys = speaking_to(requester)
        deny = allow = 0
        is_any = False
        for rules in self._matching(name):
            is_any = True
            for key in keys:
                if masks := rules.get(key):
                    deny |= masks.deny
                    allow |= masks.allow
        return Found(Masks(deny, allow), is_any)

    def _matching(self, name: str) -> Iterator[Rules]:
        for literal in {name, WILDCARD}:
            if rules := self._literal.get(literal):
                yield rules
        yield from _prefixes_of(name, self._prefixed, self._lengths)

    def allows_any(self, requester: Requester, operation: Operation) -> bool:
        """Return whether a pattern allows something that no pattern of a DENY covers.

        Implied operations do not count here, nor does a literal DENY cover a prefix; as in Kafka.
        Cost: 4 look-ups for each pattern of the type.
        """
        keys, mask = speaking_to(requester), NAMED_BY[operation]
        denied_literal, allowed_literal = _named(self._literal, keys, mask)
        if WILDCARD in denied_literal:
            return False
        if WILDCARD in allowed_literal:
            return True
        denied_prefixes, allowed_prefixes = _named(self._prefixed, keys, mask)
        lengths = sorted({len(each) for each in denied_prefixes})
        names = [*(allowed_literal - denied_literal), *allowed_prefixes]
        denied = dict.fromkeys(denied_prefixes, True)
        return any(not any(_prefixes_of(name, denied, lengths)) for name in names)


def _named(
    patterns: Mapping[str, Rules], keys: Iterable[tuple[str, str]], mask: int
) -> tuple[set[str], set[str]]:
    """Return the names of patterns that deny, and of those that allow."""
    denied, allowed = set(), set()
    for name, rules in patterns.items():
        for key in keys:
            if masks := rules.get(key):
                if masks.deny & mask:
                    denied.add(name)
                if masks.allow & mask:
                    allowed.add(name)
    return denied, allowed


def _prefixes_of(name: str, prefixes: Mapping[str, T], lengths: list[int]) -> Iterator[T]:
    """Yield what the prefixes of a name have, itself among them."""
    for length in lengths[: bisect_right(lengths, len(name))]:
        if found := prefixes.get(name[:length]):
            yield found


class AclRules:
    """The rules of everything, by resource type."""

    def __init__(self) -> None:
        self._types = {each: TypeRules() for each in ResourceType}

    def use(self, pattern: Pattern, entries: Iterable[Entry]) -> None:
        """Replace the entries of a pattern; none: the pattern goes."""
        self._types[pattern.resource_type].use(pattern, rules_of(entries))

    def of(self, resource_type: ResourceType) -> TypeRules:
        """Return the rules of one type."""
        return self._types[resource_type]
