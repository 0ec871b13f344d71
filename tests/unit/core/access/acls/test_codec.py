"""ACLs as they are stored: Kafka's JSON, and nothing else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.core.access.acls.codec import (
    PatternEntries,
    decode_entries,
    encode_entries,
    entity_of,
    pattern_of,
)
from tailrace.core.access.acls.model import (
    Entry,
    Operation,
    Pattern,
    PatternType,
    Permission,
    ResourceType,
)
from tailrace.core.errors import CorruptData

text = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)
entries = st.builds(
    Entry,
    text,
    text,
    st.sampled_from([each for each in Operation if each > Operation.ANY]),
    st.sampled_from([Permission.ALLOW, Permission.DENY]),
)


@given(st.lists(entries, min_size=1, max_size=5, unique=True))
def test_what_is_stored_is_read_again(found: list[Entry]) -> None:
    value = PatternEntries(tuple(found))
    assert decode_entries("p", encode_entries(value)) == value


def test_the_json_is_kafkas() -> None:
    entry = Entry("User:CN=a", "*", Operation.DESCRIBE_CONFIGS, Permission.ALLOW)
    assert encode_entries(PatternEntries((entry,))) == (
        b'{"acls":[{"host":"*","operation":"DescribeConfigs","permissionType":"Allow",'
        b'"principal":"User:CN=a"}],"version":1}'
    )


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b'{"version":1}',
        b'{"version":2,"acls":[{"principal":"a:b","host":"*","operation":"Read","permissionType":"Allow"}]}',
        b'{"version":1,"acls":[{"principal":"a:b","host":"*","operation":"Any","permissionType":"Allow"}]}',
        b'{"version":1,"acls":[{"principal":"a:b","host":"*","operation":"Read","permissionType":"Any"}]}',
        b'{"version":1,"acls":[{"principal":"a:b","operation":"Read","permissionType":"Deny"}]}',
        b'{"version":1,"acls":[]}',
        b"\xff",
    ],
)
def test_anything_else_is_corrupt(data: bytes) -> None:
    with pytest.raises(CorruptData):
        decode_entries("p", data)


@given(
    st.sampled_from([each for each in ResourceType if each > ResourceType.ANY]),
    text,
    st.sampled_from([PatternType.LITERAL, PatternType.PREFIXED]),
)
def test_names_of_entities_are_those_of_patterns(
    kind: ResourceType, name: str, pattern_type: PatternType
) -> None:
    pattern = Pattern(kind, name, pattern_type)
    assert pattern_of(entity_of(pattern)) == pattern
