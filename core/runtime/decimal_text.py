"""Whole numbers as text that others wrote: in nodes, in names, in what clients and operators send.

`int` alone takes "+1", " 1", "1_0" and the digits of every script, has no upper end, and raises at
4,301 digits; `str.isdigit` takes "²". Pure.
"""

from typing import Final

INT32_MAX: Final = (1 << 31) - 1
INT64_MAX: Final = (1 << 63) - 1
_DIGITS_MAX: Final = 20


def decimal(text: str, most: int = INT64_MAX, least: int = 0) -> int | None:
    """Return a number from `least` to `most`, both inclusive; None: the text is not one.

    Shape: ASCII digits, 20 at most, behind a minus if `least` is below 0; zeros may lead.
    """
    digits = text.removeprefix("-") if least < 0 else text
    if not (digits.isascii() and digits.isdigit()) or len(digits) > _DIGITS_MAX:
        return None
    value = int(text)
    return value if least <= value <= most else None
