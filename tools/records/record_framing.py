"""Splits a byte stream into records for `tailrace produce`. Pure."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

RECORD_BYTES_MAX = 8 * 1024 * 1024
"""Above what a broker can store; a record without an end is refused before it fills the memory."""


class Framing(NamedTuple):
    """How bytes become records."""

    delimiter: bytes
    key_delimiter: bytes | None
    whole: bool
    """One record per file."""
    null: bool
    """Empty keys and values become null."""


class RecordTooLong(ValueError):
    """A record without an end in sight."""


KeyValue = tuple[bytes | None, bytes | None]


def split(chunks: Iterable[bytes], framing: Framing) -> Iterator[bytes]:
    """Yield records without their delimiter; the last one needs none. Errors: RecordTooLong."""
    rest = b""
    for chunk in chunks:
        # The rest may end in half a delimiter, so it is searched again together with the chunk.
        rest += chunk
        if not framing.whole:
            *records, rest = rest.split(framing.delimiter)
            yield from records
        if len(rest) > RECORD_BYTES_MAX:
            raise RecordTooLong(f"a record is longer than {RECORD_BYTES_MAX} bytes")
    if rest or framing.whole:
        yield rest


def key_value(data: bytes, framing: Framing) -> KeyValue:
    """Return key and value of a record; without a delimiter it has no key."""
    key: bytes | None = None
    value: bytes | None = data
    if framing.key_delimiter is not None:
        before, found, behind = data.partition(framing.key_delimiter)
        if found:
            key, value = before, behind
    if framing.null:
        key, value = key or None, value or None
    return key, value
