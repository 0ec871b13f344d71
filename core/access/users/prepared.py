"""SASLprep: the one form of a name or password that looks the same (RFC 4013). Pure.

Some clients prepare what they send (RFC 5802 says that they should), Kafka's do not. So only what
is its own prepared form becomes a name here: all clients send it as the same bytes, and no two
users differ in what only looks different. What comes at a log-in is compared as it is.
"""

import stringprep
import unicodedata
from collections.abc import Callable
from typing import Final

CHARACTERS_MAX: Final = 255
"""Of a name, or of a password that is made here."""

_PROHIBITED: Final[tuple[Callable[[str], bool], ...]] = (
    stringprep.in_table_c12,
    stringprep.in_table_c21_c22,
    stringprep.in_table_c3,
    stringprep.in_table_c4,
    stringprep.in_table_c5,
    stringprep.in_table_c6,
    stringprep.in_table_c7,
    stringprep.in_table_c8,
    stringprep.in_table_c9,
    stringprep.in_table_a1,
)


def saslprep(text: str) -> str:
    """Return the prepared form of a text, for storing. Errors: ValueError, without the text.

    Cost: some us a character; texts of more than CHARACTERS_MAX are refused before.
    """
    if len(text) > CHARACTERS_MAX:
        raise ValueError(f"it has {len(text)} characters, at most {CHARACTERS_MAX} may be")
    mapped = "".join(
        " " if stringprep.in_table_c12(each) else each
        for each in text
        if not stringprep.in_table_b1(each)
    )
    prepared = unicodedata.ucd_3_2_0.normalize("NFKC", mapped)
    if any(is_in(each) for each in prepared for is_in in _PROHIBITED):
        raise ValueError("it has a character that SASLprep (RFC 4013) prohibits")
    _check_direction(prepared)
    return prepared


def check_prepared(text: str) -> None:
    """Refuse what is not its own prepared form. Errors: ValueError, without the text."""
    if saslprep(text) != text:
        raise ValueError("it has characters that SASLprep (RFC 4013) makes others of")


def _check_direction(text: str) -> None:
    """Refuse a mixture of writing from right to left and from left to right (RFC 3454, 6)."""
    if not any(map(stringprep.in_table_d1, text)):
        return
    ends = stringprep.in_table_d1(text[0]) and stringprep.in_table_d1(text[-1])
    if not ends or any(map(stringprep.in_table_d2, text)):
        raise ValueError("it mixes directions of writing")
