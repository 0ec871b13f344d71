"""The bytes of a segment in cold storage: one object, version 1. Pure.

    object  = header block* index trailer
    header  = "TRCOLD01" | u32 size of the text | JSON text | u32 crc of all before
    block   = entry*       consecutive entries; the index says where it is, and its crc
    entry   = u32 size of the payload | i64 LAC | i64 payload bytes of the ledger so far | payload
    index   = "TRCIDX01" | u32 blocks | u64 entries | u32 crc of header and blocks
              | per block: u64 first entry, u64 position, u32 size, u32 crc  | u32 crc of the index
    trailer = u64 position of the index | u32 size of the index | u32 crc of both | "TRCEND01"

Numbers are big-endian, a crc is CRC32C. The index lies behind the blocks because an upload is a
stream: nothing before it can be changed any more. LAC and length are the ledger entry's own, so an
entry is given out as its bookie would have.
"""

import struct
from bisect import bisect_right
from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from tailrace.core.errors import ColdObjectCorrupt
from tailrace.core.runtime.stored_json import NOT_JSON, Natural
from tailrace.protocol.bookkeeper.entry import ENTRY_BYTES_LIMIT, FRAME_BYTES_LIMIT, Entry
from tailrace.protocol.crc32c import crc32c
from tailrace.protocol.ids import NO_ENTRY, Buffer, EntryId, LedgerId

FORMAT_VERSION: Final = 1
HEADER_BYTES_MAX: Final = 64 * 1024
BLOCK_BYTES_MAX: Final = FRAME_BYTES_LIMIT + 32 * 1024 * 1024
"""No block is larger: a bound on what an index can make a reader ask for. The largest block that
may be configured, less a byte, and the largest entry."""

_HEADER_MAGIC: Final = b"TRCOLD01"
_INDEX_MAGIC: Final = b"TRCIDX01"
_TRAILER_MAGIC: Final = b"TRCEND01"
_U32: Final = struct.Struct(">I")
_ENTRY: Final = struct.Struct(">Iqq")
_INDEX: Final = struct.Struct(">8sIQI")
_BLOCK: Final = struct.Struct(">QQII")
_TRAILER: Final = struct.Struct(">QII8s")
_TRAILER_BODY: Final = struct.Struct(">QI")

TRAILER_BYTES: Final = _TRAILER.size
HEADER_PREFIX_BYTES: Final = len(_HEADER_MAGIC) + _U32.size


class Header(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What an object says of itself, also without any metadata."""

    namespace: str
    """Path of the log in the metadata."""
    log: str
    lssn: Natural
    ledger_id: Natural
    entries: Natural
    payload_bytes: Natural
    segment: str
    """The segment's DistributedLog metadata when it was copied."""
    version: Natural = FORMAT_VERSION


class Block(NamedTuple):
    """Where some consecutive entries are."""

    first_entry_id: EntryId
    position: int
    size: int
    crc32c: int


class Index(NamedTuple):
    """Where every entry is."""

    blocks: tuple[Block, ...]
    entries: int
    crc32c: int
    """Of header and blocks."""

    def block_numbers(self, first: EntryId, last: EntryId) -> range:
        """Return which blocks hold the entries `first`..`last`, both in the object."""
        firsts = [block.first_entry_id for block in self.blocks]
        return range(bisect_right(firsts, first) - 1, bisect_right(firsts, last))


def encode_header(header: Header) -> bytes:
    """Return the header's bytes."""
    text = msgspec.json.encode(header)
    body = _HEADER_MAGIC + _U32.pack(len(text)) + text
    return body + _U32.pack(crc32c(body))


def header_size(prefix: Buffer, place: str) -> int:
    """Return the size of a header by its first bytes. Errors: ColdObjectCorrupt."""
    if len(prefix) < HEADER_PREFIX_BYTES or bytes(prefix[:8]) != _HEADER_MAGIC:
        raise ColdObjectCorrupt(f"{place}: no segment of cold storage begins like this")
    (size,) = _U32.unpack_from(prefix, len(_HEADER_MAGIC))
    if size > HEADER_BYTES_MAX:
        raise ColdObjectCorrupt(f"{place}: a header of {size} bytes")
    return HEADER_PREFIX_BYTES + int(size) + _U32.size


def decode_header(data: Buffer, place: str) -> Header:
    """Read a whole header. Errors: ColdObjectCorrupt."""
    if header_size(data, place) != len(data):
        raise ColdObjectCorrupt(f"{place}: a header of {len(data)} bytes has another size")
    _check(data, f"{place}: header")
    try:
        header = msgspec.json.decode(bytes(data[HEADER_PREFIX_BYTES : -_U32.size]), type=Header)
    except NOT_JSON as error:
        raise ColdObjectCorrupt(f"{place}: header: {error}") from error
    if header.version != FORMAT_VERSION:
        raise ColdObjectCorrupt(f"{place}: format {header.version}, known is {FORMAT_VERSION}")
    return header


def encode_entry(entry: Entry) -> tuple[Buffer, ...]:
    """Return the parts of an entry in a block."""
    return _ENTRY.pack(len(entry.payload), entry.lac, entry.length), entry.payload


def decode_block(data: Buffer, block: Block, ledger_id: LedgerId, place: str) -> list[Entry]:
    """Read a block's entries. Errors: ColdObjectCorrupt names block and entry."""
    where = f"{place}: block at {block.position}, entries from {block.first_entry_id}"
    if len(data) != block.size or crc32c(data) != block.crc32c:
        raise ColdObjectCorrupt(f"{where}: {len(data)} of {block.size} bytes, or another CRC32C")
    view = memoryview(data)
    entries: list[Entry] = []
    at = 0
    while at < len(view):
        entry_id = block.first_entry_id + len(entries)
        begin = at + _ENTRY.size
        if begin > len(view):
            raise ColdObjectCorrupt(f"{where}: entry {entry_id} is cut")
        size, lac, length = _ENTRY.unpack_from(view, at)
        at = begin + size
        if at > len(view) or size > ENTRY_BYTES_LIMIT:
            raise ColdObjectCorrupt(f"{where}: entry {entry_id} of {size} bytes is cut")
        entries.append(Entry(ledger_id, entry_id, lac, length, view[begin:at]))
    return entries


def encode_index(index: Index) -> bytes:
    """Return the index's bytes."""
    body = _INDEX.pack(_INDEX_MAGIC, len(index.blocks), index.entries, index.crc32c)
    body += b"".join(_BLOCK.pack(*block) for block in index.blocks)
    return body + _U32.pack(crc32c(body))


def decode_index(data: Buffer, place: str) -> Index:
    """Read an index; its blocks follow each other without a gap. Errors: ColdObjectCorrupt."""
    where = f"{place}: index"
    if len(data) < _INDEX.size + _U32.size or bytes(data[:8]) != _INDEX_MAGIC:
        raise ColdObjectCorrupt(f"{where} of {len(data)} bytes begins with something else")
    _check(data, where)
    _, count, entries, crc = _INDEX.unpack_from(data)
    if len(data) != _INDEX.size + count * _BLOCK.size + _U32.size:
        raise ColdObjectCorrupt(f"{where} of {len(data)} bytes says it has {count} blocks")
    body = memoryview(data)[_INDEX.size : -_U32.size]
    blocks = tuple(Block(*fields) for fields in _BLOCK.iter_unpack(body))
    _check_order(blocks, entries, where)
    return Index(blocks, entries, crc)


def encode_trailer(index_at: int, index_size: int) -> bytes:
    """Return the trailer's bytes."""
    body = _TRAILER_BODY.pack(index_at, index_size)
    return body + _U32.pack(crc32c(body)) + _TRAILER_MAGIC


def decode_trailer(data: Buffer, place: str) -> tuple[int, int]:
    """Return where the index begins, and its size. Errors: ColdObjectCorrupt."""
    if len(data) != _TRAILER.size:
        raise ColdObjectCorrupt(f"{place}: a trailer of {len(data)} bytes")
    index_at, size, crc, magic = _TRAILER.unpack(data)
    if magic != _TRAILER_MAGIC or crc != crc32c(_TRAILER_BODY.pack(index_at, size)):
        raise ColdObjectCorrupt(f"{place}: the trailer does not verify; was the upload cut?")
    return index_at, size


def last_entry_id(index: Index) -> EntryId:
    """Return the id of the last entry; -1 without any."""
    return index.entries - 1 if index.entries else NO_ENTRY


def _check(data: Buffer, where: str) -> None:
    view = memoryview(data)
    if crc32c(view[: -_U32.size]) != _U32.unpack(view[-_U32.size :])[0]:
        raise ColdObjectCorrupt(f"{where}: the CRC32C does not match")


def _check_order(blocks: Sequence[Block], entries: int, where: str) -> None:
    next_entry_id, position = 0, blocks[0].position if blocks else 0
    for block in blocks:
        is_next = block.first_entry_id >= next_entry_id and block.position == position
        if not is_next or not 0 < block.size <= BLOCK_BYTES_MAX:
            raise ColdObjectCorrupt(f"{where}: {block} does not follow the block before it")
        next_entry_id, position = block.first_entry_id + 1, position + block.size
    if (blocks and blocks[0].first_entry_id != 0) or entries < next_entry_id:
        raise ColdObjectCorrupt(f"{where}: {entries} entries do not fit its blocks")
