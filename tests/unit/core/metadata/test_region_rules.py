import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.core.errors import CorruptData
from tailrace.core.metadata.region_rules import (
    NO_RULES,
    RegionRules,
    encode_region_rules,
    parse_region_rules,
)


def test_what_operators_write() -> None:
    data = b'{"reppRegionsToWrite": ["eu", "us"], "disallowBookiePlacement": ["us"]}'
    rules = parse_region_rules(data)
    assert rules == RegionRules(to_write=("eu", "us"), disallowed=frozenset({"us"}))
    assert parse_region_rules(b" ") == parse_region_rules(b"{}") == NO_RULES


@given(st.none() | st.lists(st.text()).map(tuple), st.frozensets(st.text()))
def test_there_and_back(to_write: tuple[str, ...] | None, disallowed: frozenset[str]) -> None:
    rules = RegionRules(to_write=to_write, disallowed=disallowed)
    assert parse_region_rules(encode_region_rules(rules)) == rules


@pytest.mark.parametrize(
    "data", [b"x", b"[]", b'{"regions": []}', b'{"reppRegionsToWrite": "eu;us"}', b"\xff"]
)
def test_anything_else_is_refused(data: bytes) -> None:
    with pytest.raises(CorruptData, match="region rules"):
        parse_region_rules(data)
