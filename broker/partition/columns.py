"""Columns of 64-bit numbers as bytes: the tables that are kept per segment. Pure."""

import sys
from array import array
from typing import TYPE_CHECKING

from tailrace.protocol.errors import BadLength
from tailrace.protocol.ids import Buffer

if TYPE_CHECKING:
    from collections.abc import Iterable

COLUMN_ENTRY_BYTES = 8


def encode_columns(columns: "Iterable[array[int]]") -> bytes:
    """Return columns of one length as bytes, one after the other, big endian."""
    return b"".join(_big_endian(column).tobytes() for column in columns)


def decode_columns(
    data: Buffer, at: int, width: int, count: int
) -> "tuple[tuple[array[int], ...], int]":
    """Read `width` columns of `count` numbers; return them with the place where they end.

    Errors: BadLength.
    """
    size = COLUMN_ENTRY_BYTES * count
    if width * size > len(data) - at:
        raise BadLength(f"{count} rows of {width} numbers in {len(data) - at} bytes")
    columns = []
    for _ in range(width):
        column = array("q")
        column.frombytes(bytes(memoryview(data)[at : at + size]))
        columns.append(_big_endian(column))
        at += size
    return tuple(columns), at


def _big_endian(column: "array[int]") -> "array[int]":
    """Swap between this machine's order and big endian, in a copy."""
    swapped = column[:]
    if sys.byteorder == "little":
        swapped.byteswap()
    return swapped
