"""BookKeeper's entry log, byte for byte. Source: reference BookKeeper 5.6; DefaultEntryLogger.

    file   = header of 1024 bytes, record*, ledgers map once sealed
    header = "BKLO", i32 version 1, i64 offset of the ledgers map, i32 ledgers in it, zeros
    map    = i32 size, i64 -1, i64 -2, i32 count, count * (i64 ledger id, i64 bytes); repeated

Ours: the last 16 of the header's zero bytes: "TAILRACE" (this log is made of groups), and where the
log before this one ended (i64, 0: unknown), so that a damaged end of a log is not taken for one
that was cut by a crash. Java never reads them.
"""

import struct
from collections.abc import Mapping
from typing import NamedTuple

from tailrace.protocol.errors import BadLength, BadValue, BufferUnderflow
from tailrace.protocol.ids import Buffer, Position

HEADER_SIZE = 1024
MAP_LEDGER = -1
MAP_ENTRY = -2
MAP_PAIRS_MAX = 10_000
SUFFIX = ".log"
POSITION_MAX = 2**31 - 1
HEX_DIGITS_MAX = 16

_HEADER = struct.Struct(">4siqi")
_I64 = struct.Struct(">q")
_MAP = struct.Struct(">iqqi")
_PAIR = struct.Struct(">qq")
_SIGN = b"TAILRACE"
_SIGN_AT = HEADER_SIZE - _I64.size - len(_SIGN)
_PREVIOUS_AT = HEADER_SIZE - _I64.size


class LogHeader(NamedTuple):
    """First bytes of an entry log. `map_offset` 0: not sealed."""

    map_offset: Position = 0
    ledgers: int = 0
    previous_end: Position = 0
    version: int = 1
    grouped: bool = False
    """Whether the log is made of groups: Java's are not."""


def pack_header(header: LogHeader) -> bytes:
    """Return the 1024 bytes."""
    head = _HEADER.pack(b"BKLO", header.version, header.map_offset, header.ledgers)
    sign = _SIGN if header.grouped else bytes(len(_SIGN))
    return head.ljust(_SIGN_AT, b"\0") + sign + _I64.pack(header.previous_end)


def read_header(data: Buffer) -> LogHeader:
    """Read the 1024 bytes. Errors: BufferUnderflow, BadValue."""
    if len(data) < HEADER_SIZE:
        raise BufferUnderflow(f"an entry log of {len(data)} bytes has no header")
    magic, version, map_offset, ledgers = _HEADER.unpack_from(data)
    if magic != b"BKLO" or version not in (0, 1) or map_offset < 0 or ledgers < 0:
        raise BadValue(f"not the header of an entry log: {bytes(data[: _HEADER.size]).hex()}")
    (previous_end,) = _I64.unpack_from(data, _PREVIOUS_AT)
    grouped = bytes(data[_SIGN_AT:_PREVIOUS_AT]) == _SIGN
    return LogHeader(map_offset, ledgers, previous_end, version, grouped)


def pack_ledgers_map(usage: Mapping[int, int]) -> bytes:
    """Return the ledgers map. Shape: ledger id -> bytes of its records with their size fields."""
    pairs = list(usage.items())
    chunks = []
    for first in range(0, len(pairs), MAP_PAIRS_MAX):
        some = pairs[first : first + MAP_PAIRS_MAX]
        size = _MAP.size - 4 + len(some) * _PAIR.size
        chunks.append(_MAP.pack(size, MAP_LEDGER, MAP_ENTRY, len(some)))
        chunks.extend(_PAIR.pack(*pair) for pair in some)
    return b"".join(chunks)


def read_ledgers_map(data: Buffer, ledgers: int) -> dict[int, int]:
    """Read a ledgers map of `ledgers` pairs. Errors: BufferUnderflow, BadValue, BadLength."""
    usage: dict[int, int] = {}
    at = 0
    while len(usage) < ledgers:
        if at + _MAP.size > len(data):
            raise BufferUnderflow("the ledgers map is cut")
        size, ledger_id, entry_id, count = _MAP.unpack_from(data, at)
        if (ledger_id, entry_id) != (MAP_LEDGER, MAP_ENTRY):
            raise BadValue(f"not a ledgers map: ledger {ledger_id} entry {entry_id}")
        if not 0 < count <= MAP_PAIRS_MAX or size != _MAP.size - 4 + count * _PAIR.size:
            raise BadLength(f"a ledgers map of {count} pairs in {size} bytes")
        at += _MAP.size
        if at + count * _PAIR.size > len(data):
            raise BufferUnderflow("the ledgers map is cut")
        usage.update(_PAIR.iter_unpack(memoryview(data)[at : at + count * _PAIR.size]))
        at += count * _PAIR.size
    return usage


def file_name(log_id: int) -> str:
    """Return the name of an entry log."""
    return f"{log_id:x}{SUFFIX}"


def file_ids(names: list[str], suffix: str = SUFFIX) -> list[int]:
    """Return the ids of the files with this suffix among `names`, sorted."""
    return sorted(
        int(name.removesuffix(suffix), 16)
        for name in names
        if name.endswith(suffix) and is_hex(name.removesuffix(suffix))
    )


def is_hex(text: str) -> bool:
    """Return whether `text` is a plain lower-case hexadecimal number of 63 bits."""
    is_plain = 0 < len(text) <= HEX_DIGITS_MAX and not text.strip("0123456789abcdef")
    return is_plain and int(text, 16) < 1 << 63


def pack_location(log_id: int, position: Position) -> int:
    """Return what an index holds for a body at `position`; never 0."""
    return log_id << 32 | position


def split_location(location: int) -> tuple[int, Position]:
    """Return (log id, position of the body)."""
    return location >> 32, location & 0xFFFFFFFF
