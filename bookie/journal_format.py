"""BookKeeper's journal, version 6, byte for byte. Source: reference BookKeeper 5.2.

    file    = header of 512 bytes ("BKLG", i32 version 6, sign, chain, zeros), (record | padding)*
    sign    = "TAILRACE" where Java has zeros that it never reads: this file is made of groups
    chain   = i64 id and i64 end of the file before (0, 0: none), u32 CRC32C of file id, id, end
    record  = i32 size, body: i64 ledger id, i64 entry id, rest
    padding = i32 -0x100, i32 length, that many zeros

The entry id tells special records from entries: -0x1000 master key (i32 length, key), -0x2000
fence, -0x8000 explicit LAC (i32 length, packet). Groups and their trailers: group_format.
"""

import struct
from collections.abc import Iterator
from typing import NamedTuple

from tailrace.protocol.crc32c import crc32c
from tailrace.protocol.errors import BadLength, BadValue, BufferUnderflow
from tailrace.protocol.ids import Buffer, EntryId, LedgerId, Position

HEADER_SIZE = 512
ALIGNMENT = 512
VERSION = 6
SUFFIX = ".txn"
KEY = -0x1000
FENCE = -0x2000
EXPLICIT_LAC = -0x8000
PADDING = -0x100

_HEADER = struct.Struct(">4si")
_SIGN = b"TAILRACE"
_CHAIN = struct.Struct(">qqI")
_CHAIN_SEED = struct.Struct(">qqq")
_CHAIN_AT = _HEADER.size + len(_SIGN)
_IDS = struct.Struct(">iqq")
_VALUE = struct.Struct(">iqqi")
_I32 = struct.Struct(">i")
_PADDING = struct.Struct(">ii")


class JournalRecord(NamedTuple):
    """One record. `body` begins with the ledger id; empty for padding (entry id PADDING)."""

    position: Position
    ledger_id: int
    entry_id: EntryId
    body: memoryview


def file_name(journal_id: int) -> str:
    """Return the name of a journal file."""
    return f"{journal_id:x}{SUFFIX}"


class Previous(NamedTuple):
    """The journal file before one; (0, 0) before the first."""

    file_id: int = 0
    end: Position = 0
    """Where its last group ends: everything before was acknowledged, nothing behind it."""


def pack_header(journal_id: int, previous: Previous) -> bytes:
    """Return the 512 bytes that a journal begins with."""
    chain = _CHAIN.pack(*previous, _chain_crc(journal_id, previous))
    return (_HEADER.pack(b"BKLG", VERSION) + _SIGN + chain).ljust(HEADER_SIZE, b"\0")


def read_previous(header: Buffer, journal_id: int) -> Previous | None:
    """Return what a checked header says of the file before; None if it does not say (Java's).

    Errors: BadValue: the header is damaged.
    """
    if not any(header[_HEADER.size :]):
        return None
    if is_grouped(header) and not any(header[_CHAIN_AT:]):
        return None  # of a version that did not chain its files
    file_id, end, crc = _CHAIN.unpack_from(header, _CHAIN_AT)
    previous = Previous(file_id, end)
    if not is_grouped(header) or crc != _chain_crc(journal_id, previous):
        raise BadValue("the header of the journal is damaged")
    return previous


def _chain_crc(journal_id: int, previous: Previous) -> int:
    return crc32c(_CHAIN_SEED.pack(journal_id, *previous))


def check_header(data: Buffer) -> None:
    """Refuse what is not a journal of version 6. Errors: BufferUnderflow, BadValue."""
    if len(data) < HEADER_SIZE:
        raise BufferUnderflow(f"a journal of {len(data)} bytes has no header")
    if _HEADER.unpack_from(data) != (b"BKLG", VERSION):
        raise BadValue(f"not the header of a journal version 6: {bytes(data[:8]).hex()}")


def is_grouped(header: Buffer) -> bool:
    """Return whether a header says that its file is made of groups."""
    return bytes(header[_HEADER.size : _HEADER.size + len(_SIGN)]) == _SIGN


def pack_key(ledger_id: LedgerId, key: bytes) -> bytes:
    """Return the record of a ledger's master key."""
    return _VALUE.pack(20 + len(key), ledger_id, KEY, len(key)) + key


def pack_fence(ledger_id: LedgerId) -> bytes:
    """Return the record that fences a ledger."""
    return _IDS.pack(16, ledger_id, FENCE)


def pack_explicit_lac(ledger_id: LedgerId, packet: Buffer) -> bytes:
    """Return the record of an explicit LAC; the packet is kept as it came."""
    return _VALUE.pack(20 + len(packet), ledger_id, EXPLICIT_LAC, len(packet)) + packet


def read_value(body: memoryview) -> bytes:
    """Return the key or packet of such a record's body. Errors: BufferUnderflow, BadLength."""
    if len(body) < 20:
        raise BufferUnderflow(f"a special record of {len(body)} bytes")
    (length,) = _I32.unpack_from(body, 16)
    if length != len(body) - 20:
        raise BadLength(f"{length} bytes in a special record of {len(body)}")
    return bytes(body[20:])


def padding_size(position: Position, alignment: int = ALIGNMENT) -> int:
    """Return how long the padding record at `position` is: see pack_padding."""
    missing = -position % alignment
    return missing + alignment if 0 < missing < _PADDING.size else missing


def pack_padding(position: Position, alignment: int = ALIGNMENT) -> bytes:
    """Return the padding record that takes the file from `position` to a multiple of `alignment`.

    Shape: nothing if it is one already; one more block if less than 8 bytes are missing.
    """
    size = padding_size(position, alignment)
    if not size:
        return b""
    return _PADDING.pack(PADDING, size - _PADDING.size) + bytes(size - _PADDING.size)


def read_records(data: Buffer, position: Position) -> Iterator[JournalRecord]:
    """Read records and padding from `position`, a record's place in the file that `data` holds.

    Ends at the end, at zeros, or where a record is cut (a torn tail is normal). Errors: BadLength;
    for padding of a negative length too, which would lead back, again and again.
    """
    view = memoryview(data)
    while position + 8 <= len(view):
        size, length = _PADDING.unpack_from(view, position)
        if size == PADDING:
            if length < 0:
                raise BadLength(f"padding of {length} bytes at {position}")
            yield JournalRecord(position, 0, PADDING, view[:0])
            position += 8 + length
            continue
        if size == 0 or position + 4 + size > len(view):
            return
        if size < 16:
            raise BadLength(f"a journal record of {size} bytes at {position}")
        _, ledger_id, entry_id = _IDS.unpack_from(view, position)
        body = view[position + 4 : position + 4 + size]
        yield JournalRecord(position, ledger_id, entry_id, body)
        position += 4 + size
