"""Filters of ACLs, case by case as Kafka's ResourcePatternFilter and AccessControlEntryFilter."""

import pytest

from tailrace.core.access.acls.filters import AclFilter, EntryFilter, PatternFilter
from tailrace.core.access.acls.model import (
    Entry,
    Operation,
    Pattern,
    PatternType,
    Permission,
    ResourceType,
)

TOPIC, GROUP, ANY_TYPE = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.ANY
LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED
ANY, MATCH = PatternType.ANY, PatternType.MATCH
STORED = {
    "topic": Pattern(TOPIC, "topic", LITERAL),
    "top+": Pattern(TOPIC, "top", PREFIXED),
    "topic+": Pattern(TOPIC, "topic", PREFIXED),
    "*": Pattern(TOPIC, "*", LITERAL),
    "*+": Pattern(TOPIC, "*", PREFIXED),
    "group": Pattern(GROUP, "topic", LITERAL),
}


@pytest.mark.parametrize(
    ("wanted", "matching"),
    [
        ((ANY_TYPE, None, ANY), "topic top+ topic+ * *+ group"),
        ((ANY_TYPE, None, MATCH), "topic top+ topic+ * *+ group"),
        ((TOPIC, None, LITERAL), "topic *"),
        ((TOPIC, None, PREFIXED), "top+ topic+ *+"),
        ((TOPIC, "topic", LITERAL), "topic"),
        ((TOPIC, "topic", PREFIXED), "topic+"),
        ((TOPIC, "topic", ANY), "topic topic+"),
        ((TOPIC, "topic", MATCH), "topic top+ topic+ *"),
        ((TOPIC, "topics", MATCH), "top+ topic+ *"),
        ((TOPIC, "to", MATCH), "*"),
        ((TOPIC, "*", MATCH), "* *+"),
        ((TOPIC, "*", LITERAL), "*"),
        ((TOPIC, "*", ANY), "* *+"),
        ((TOPIC, "", MATCH), "*"),
        ((TOPIC, "", ANY), ""),
        ((GROUP, "topic", MATCH), "group"),
        ((ANY_TYPE, "topic", LITERAL), "topic group"),
        ((ResourceType.USER, None, ANY), ""),
    ],
)
def test_patterns(wanted: tuple[ResourceType, str | None, PatternType], matching: str) -> None:
    found = PatternFilter(*wanted)
    assert [name for name, each in STORED.items() if found.matches(each)] == matching.split()
    if found.only is not None:
        assert {each for each in STORED.values() if found.matches(each)} <= {found.only}


def test_entries() -> None:
    entry = Entry("User:a", "h", Operation.READ, Permission.ALLOW)
    whole = EntryFilter(*entry)
    assert whole.matches(entry)
    assert EntryFilter(None, None, Operation.ANY, Permission.ANY).matches(entry)
    assert not whole._replace(principal="User:*").matches(entry)
    assert not whole._replace(host="*").matches(entry)
    assert not whole._replace(operation=Operation.ALL).matches(entry)
    assert not whole._replace(permission=Permission.DENY).matches(entry)


def test_what_is_not_known() -> None:
    entries = EntryFilter(None, None, Operation.ANY, Permission.ANY)
    patterns = PatternFilter(ANY_TYPE, None, ANY)
    assert not patterns.is_unknown
    assert not entries.is_unknown
    assert AclFilter(patterns, entries).pattern is patterns
    assert patterns._replace(resource_type=ResourceType.UNKNOWN).is_unknown
    assert patterns._replace(pattern_type=PatternType.UNKNOWN).is_unknown
    assert entries._replace(operation=Operation.UNKNOWN).is_unknown
    assert entries._replace(permission=Permission.UNKNOWN).is_unknown
