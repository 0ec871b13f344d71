"""Files of properties: what java.util.Properties reads in them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.core.access.client.java_properties import InvalidProperties, parse_properties


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", {}),
        ("a=b", {"a": "b"}),
        ("a=b\nc=d\r\ne=f\rg=h", {"a": "b", "c": "d", "e": "f", "g": "h"}),
        ("# a=b\n  ! c=d\n\n \t\ne=f # kept", {"e": "f # kept"}),
        ("a : b\nc d\ne\t=\tf  \ng", {"a": "b", "c": "d", "e": "f  ", "g": ""}),
        ("a=b=c:d", {"a": "b=c:d"}),
        ("a=b\\\n   c\\\n# d", {"a": "bc# d"}),
        ("a=b\\\\\nc=d", {"a": "b\\", "c": "d"}),
        ("a=\\t\\n\\u0041\\q\\\\u0041", {"a": "\t\nAq\\u0041"}),
        ("a\\ b\\=c\\:=d", {"a b=c:": "d"}),
        ("a=1\na=2", {"a": "2"}),
        ("a=b\\", {"a": "b"}),
    ],
)
def test_what_java_reads(text: str, expected: dict[str, str]) -> None:
    assert parse_properties(text) == expected


def test_what_java_refuses_is_named_by_its_line() -> None:
    with pytest.raises(InvalidProperties, match="line 2") as refused:
        parse_properties("a=b\npassword=sesame\\u00g")
    assert "sesame" not in str(refused.value)


@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        parse_properties(text)
    except InvalidProperties:
        return
