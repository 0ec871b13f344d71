"""SASLprep: the examples of RFC 4013, and what holds for every text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.core.access.users.prepared import CHARACTERS_MAX, check_prepared, saslprep


@pytest.mark.parametrize(
    ("text", "prepared"),
    [
        ("I\u00adX", "IX"),
        ("user", "user"),
        ("USER", "USER"),
        ("\u00aa", "a"),
        ("\u2168", "IX"),
        ("a\u00a0b", "a b"),
        ("e\u0301", "\u00e9"),
        ("\u0627\u0031\u0628", "\u0627\u0031\u0628"),
        ("", ""),
    ],
)
def test_the_examples_of_the_rfc(text: str, prepared: str) -> None:
    assert saslprep(text) == prepared


@pytest.mark.parametrize(
    "text", ["\x07", "a\0b", "\u0627\u0031", "\u0627a", "\ud800", "\ue000", "\u0378", "\u202e"]
)
def test_what_is_prohibited(text: str) -> None:
    with pytest.raises(ValueError, match=r"prohibits|mixes") as refused:
        saslprep(text)
    assert text not in str(refused.value)


def test_long_texts_are_refused_unread() -> None:
    assert saslprep("x" * CHARACTERS_MAX)
    with pytest.raises(ValueError, match="256 characters"):
        saslprep("x" * (CHARACTERS_MAX + 1))


@given(st.text(max_size=CHARACTERS_MAX))
def test_what_is_prepared_stays(text: str) -> None:
    try:
        prepared = saslprep(text)
    except ValueError:
        return
    if prepared == text:
        check_prepared(text)
    else:
        with pytest.raises(ValueError, match="makes others of"):
            check_prepared(text)


@given(st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=30))
def test_visible_ascii_is_prepared(text: str) -> None:
    check_prepared(text)
