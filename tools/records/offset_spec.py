"""Where to start and stop reading: kcat's words for offsets. Pure.

start | beginning | earliest, end | latest, stored, N, -N (the last N), @TIME (the first record at
or after it: milliseconds since 1970, or ISO 8601).
"""

import re
from datetime import UTC, datetime
from typing import NamedTuple, TypeAlias


class AtStart(NamedTuple):
    """The first record that is kept."""


class AtEnd(NamedTuple):
    """Behind the last record."""


class Stored(NamedTuple):
    """Where the group committed."""


class AtOffset(NamedTuple):
    """One offset, and no other."""

    offset: int


class FromEnd(NamedTuple):
    """So many records before the end."""

    records: int


class AtTime(NamedTuple):
    """The first record at or after this time."""

    timestamp_ms: int


OffsetSpec: TypeAlias = AtStart | AtEnd | Stored | AtOffset | FromEnd | AtTime

OFFSET_HELP = "start, end, N, -N (the last N), @MILLISECONDS or @2026-11-21T10:00:00Z"

_WORDS: dict[str, OffsetSpec] = {
    "start": AtStart(),
    "beginning": AtStart(),
    "earliest": AtStart(),
    "end": AtEnd(),
    "latest": AtEnd(),
    "stored": Stored(),
}


class BadOffset(ValueError):
    """A text that names no position."""


def parse_offset(text: str) -> OffsetSpec:
    """Read one position. Errors: BadOffset."""
    if text in _WORDS:
        return _WORDS[text]
    if text.startswith("@"):
        return AtTime(_time_ms(text[1:]))
    if re.fullmatch(r"-?[0-9]{1,19}", text):
        number = int(text)
        return FromEnd(-number) if number < 0 else AtOffset(number)
    raise BadOffset(f"{text!r} is no offset")


def _time_ms(text: str) -> int:
    if re.fullmatch(r"[0-9]{1,15}", text):
        return int(text)
    try:
        at = datetime.fromisoformat(text)
    except ValueError as error:
        raise BadOffset(f"{text!r} is no time") from error
    if at.tzinfo is None:
        at = at.replace(tzinfo=UTC)
    return round(at.timestamp() * 1000)
