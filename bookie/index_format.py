"""BookKeeper's index file of one ledger, byte for byte. Source: reference BookKeeper 5.7; FileInfo.

file   = header of 1024 bytes, i64 location for each entry id from 0 (0: not here)
header = "BKLE", i32 version 1, i32 key length, key, i32 state (bit 0: fenced),
         i32 explicit LAC length, packet, zeros

Ours: "TAILRACE" and u32 CRC32C of (ledger id, the first sector without this sum), at the end of the
header's first sector if key and packet leave it room. Java never reads it, and writes zeros there.
The checksums of the locations are in a file of their own: index_sums.
"""

import struct
import sys
from array import array
from typing import NamedTuple

from tailrace.protocol.crc32c import crc32c
from tailrace.protocol.errors import BadLength, BadValue, BufferUnderflow
from tailrace.protocol.ids import Buffer, EntryId, LedgerId, Position

HEADER_SIZE = 1024
PAGE_SIZE = 8192
SLOT_SIZE = 8
SUFFIX = ".idx"
KEY_BYTES_MAX = 128
PACKET_BYTES_MAX = 512
FENCED_BIT = 1
ENTRY_ID_MAX = 2**31 - 1
"""Highest entry id that is stored: an index file has 8 bytes for each id below (16 GiB, sparse)."""

_HEAD = struct.Struct(">4sii")
_I32 = struct.Struct(">i")
_I64 = struct.Struct(">q")
_SIGN = b"TAILRACE"
_CRC = struct.Struct(">I")
_SECTOR_SIZE = 512
_CRC_AT = _SECTOR_SIZE - _CRC.size
_SIGN_AT = _CRC_AT - len(_SIGN)


class IndexHeader(NamedTuple):
    """What is kept of a ledger besides its entries."""

    master_key: bytes
    fenced: bool = False
    explicit_lac: bytes = b""
    """The packet as it came; empty if there is none."""


def pack_header(header: IndexHeader) -> bytes:
    """Return the 1024 bytes."""
    key, packet = header.master_key, header.explicit_lac
    data = b"".join(
        (
            _HEAD.pack(b"BKLE", 1, len(key)),
            key,
            _I32.pack(FENCED_BIT if header.fenced else 0),
            _I32.pack(len(packet)),
            packet,
        )
    )
    return data.ljust(HEADER_SIZE, b"\0")


def sign_header(data: bytes, ledger_id: LedgerId) -> bytes:
    """Return a packed header with our sign and its checksum; as it is if it has no room."""
    if _content_end(data) > _SIGN_AT:
        return data
    signed = data[:_SIGN_AT] + _SIGN
    return signed + _CRC.pack(_header_crc(signed, ledger_id)) + data[_SECTOR_SIZE:]


def is_signed(data: Buffer, ledger_id: LedgerId) -> bool:
    """Tell whether a header is as we wrote it; False for one of Java's, which proves nothing.

    Errors: BadValue: it is damaged; BadLength.
    """
    first = bytes(data[:_SECTOR_SIZE])
    if first[_SIGN_AT:_CRC_AT] == _SIGN:
        if _CRC.unpack_from(first, _CRC_AT)[0] != _header_crc(first[:_CRC_AT], ledger_id):
            raise BadValue("the header of the index does not match its checksum")
        return True
    if any(first[_SIGN_AT:]) and _content_end(first) <= _SIGN_AT:
        raise BadValue("the sign in the header of the index is damaged")
    return False


def _header_crc(signed: bytes, ledger_id: LedgerId) -> int:
    return crc32c(signed, crc32c(_I64.pack(ledger_id)))


def _content_end(data: Buffer) -> int:
    header = read_header(bytes(data).ljust(HEADER_SIZE, b"\0"))
    return _HEAD.size + len(header.master_key) + 8 + len(header.explicit_lac)


def read_header(data: Buffer) -> IndexHeader:
    """Read the 1024 bytes. Errors: BufferUnderflow, BadValue, BadLength."""
    if len(data) < HEADER_SIZE:
        raise BufferUnderflow(f"an index file of {len(data)} bytes has no header")
    magic, version, key_length = _HEAD.unpack_from(data)
    if magic != b"BKLE" or version not in (0, 1):
        raise BadValue(f"not the header of an index file: {bytes(data[:12]).hex()}")
    if not 0 <= key_length <= KEY_BYTES_MAX:
        raise BadLength(f"a master key of {key_length} bytes")
    at = _HEAD.size + key_length
    key = bytes(data[_HEAD.size : at])
    (state,) = _I32.unpack_from(data, at)
    packet_length = _I32.unpack_from(data, at + 4)[0] if version else 0
    if not 0 <= packet_length <= PACKET_BYTES_MAX:
        raise BadLength(f"an explicit LAC of {packet_length} bytes")
    packet = bytes(data[at + 8 : at + 8 + packet_length])
    return IndexHeader(key, bool(state & FENCED_BIT), packet)


def file_path(ledger_id: int) -> tuple[str, str, str]:
    """Return the two directories and the name of a ledger's index file."""
    return f"{ledger_id >> 8 & 0xFF:x}", f"{ledger_id & 0xFF:x}", f"{ledger_id:x}{SUFFIX}"


def slot_position(entry_id: EntryId) -> Position:
    """Return where the location of an entry lies in its index file."""
    return HEADER_SIZE + SLOT_SIZE * entry_id


def unpack_slots(data: bytes) -> "array[int]":
    """Return the locations in (part of) a page."""
    slots = array("q", data[: len(data) // SLOT_SIZE * SLOT_SIZE])
    _to_or_from_big_endian(slots)
    return slots


def pack_slots(run: "array[int]") -> bytes:
    """Return the bytes of locations that follow each other."""
    slots = array("q", run)
    _to_or_from_big_endian(slots)
    return slots.tobytes()


def _to_or_from_big_endian(slots: "array[int]") -> None:
    if sys.byteorder == "little":
        slots.byteswap()
