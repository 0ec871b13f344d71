"""SASLprep: the one form of a name or password that looks the same (RFC 4013). Pure.

Some clients prepare what they send (RFC 5802 says that they should), Kafka's do not. So only what
is its own prepared form becomes a name here: all clients send it as the same bytes, and no two
users differ in what only looks different. What comes at a log-in is compared as it is.
"""

from typing import Final

CHARACTERS_MAX: Final = 255
"""Of a name, or of a password that is made here."""


def saslprep(text: str) -> str:
    """Return the prepared form of a text, for storing. Errors: ValueError, without the text.

    Cost: none of what is plain, else 10 us a character; longer texts than CHARACTERS_MAX are
    refused before.
    """
    if len(text) > CHARACTERS_MAX:
        raise ValueError(f"it has {len(text)} characters, at most {CHARACTERS_MAX} may be")
    if is_plain(text):
        return text
    return _prepared(text)


def is_plain(text: str) -> bool:
    """Whether a text is visible ASCII and spaces, which nothing is made of."""
    return text.isascii() and text.isprintable()


def check_prepared(text: str) -> None:
    """Refuse what is not its own prepared form. Errors: ValueError, without the text."""
    if saslprep(text) != text:
        raise ValueError("it has characters that SASLprep (RFC 4013) makes others of")


def _prepared(text: str) -> str:
    import stringprep  # 5 ms and its tables, for those who need them
    import unicodedata

    mapped = "".join(
        " " if stringprep.in_table_c12(each) else each
        for each in text
        if not stringprep.in_table_b1(each)
    )
    prepared = unicodedata.ucd_3_2_0.normalize("NFKC", mapped)
    prohibited = (
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
    if any(is_in(each) for each in prepared for is_in in prohibited):
        raise ValueError("it has a character that SASLprep (RFC 4013) prohibits")
    left = any(map(stringprep.in_table_d2, prepared))
    right = [stringprep.in_table_d1(each) for each in prepared]
    if any(right) and (left or not right[0] or not right[-1]):  # RFC 3454, 6
        raise ValueError("it mixes directions of writing")
    return prepared
