"""Reading an object whole and holding it against its own checksums."""

from collections.abc import AsyncIterator
from typing import Final, NamedTuple

from tailrace.core.errors import ColdObjectCorrupt
from tailrace.core.log.cold.format import (
    HEADER_BYTES_MAX,
    TRAILER_BYTES,
    Header,
    Index,
    decode_block,
    decode_header,
    decode_index,
    decode_trailer,
    header_size,
)
from tailrace.core.log.cold.objects import Objects
from tailrace.core.log.cold.reader import spans
from tailrace.protocol.bookkeeper.entry import ENTRY_BYTES_LIMIT, MAX_ENTRY_BYTES, Entry
from tailrace.protocol.crc32c import crc32c
from tailrace.protocol.ids import LedgerId

_ENTRY_HEADER_MAX: Final = 100
"""Above BookKeeper's entry header (32 bytes) and its largest digest (20)."""


class Verified(NamedTuple):
    """What an object is found to be."""

    header: Header
    blocks: Index
    size_bytes: int
    index_at: int


async def verify_object(name: str, objects: Objects, span_bytes: int) -> Verified:
    """Read all of an object: header, each block, the whole, the number of entries.

    Needs no metadata. Errors: ColdObjectNotFound; ColdObjectCorrupt says what does not verify;
    ColdStorageUnavailable. Memory: `span_bytes`, or one block that is larger.
    """
    found = await read_frame(name, objects)
    entries = length = 0
    async for entry in read_entries(name, found, objects, span_bytes):
        entries, length = entry.entry_id + 1, entry.length
    header = found.header
    if entries != found.blocks.entries or (entries, length) != (
        header.entries,
        header.payload_bytes,
    ):
        raise ColdObjectCorrupt(
            f"{name}: {entries} entries of {length} bytes, its header says"
            f" {header.entries} of {header.payload_bytes}"
        )
    return found


async def read_frame(name: str, objects: Objects) -> Verified:
    """Read header, index and trailer. Errors: as `verify_object`."""
    size = await objects.size(name)
    trailer = await objects.read(name, max(size - TRAILER_BYTES, 0), TRAILER_BYTES)
    index_at, index_size = decode_trailer(trailer, name)
    if index_at + index_size + TRAILER_BYTES != size:
        raise ColdObjectCorrupt(f"{name}: {size} bytes are not what its trailer says")
    index = decode_index(await objects.read(name, index_at, index_size), name)
    head = await objects.read(name, 0, min(HEADER_BYTES_MAX, index_at))
    header = decode_header(head[: header_size(head, name)], name)
    return Verified(header, index, size, index_at)


def entry_bytes_in(blocks: Index) -> int:
    """Return how large the entries of a ledger must be allowed to be that holds all of an object's.

    No entry is larger than its block; most blocks are no larger than what every bookie takes.
    """
    largest = max((block.size for block in blocks.blocks), default=0)
    return min(max(largest + _ENTRY_HEADER_MAX, MAX_ENTRY_BYTES), ENTRY_BYTES_LIMIT)


async def read_entries(
    name: str, found: Verified, objects: Objects, span_bytes: int
) -> AsyncIterator[Entry]:
    """Yield all entries; at the end, the checksum of the whole is right too."""
    index = found.blocks
    begin = index.blocks[0].position if index.blocks else found.index_at
    crc = crc32c(await objects.read(name, 0, begin))
    next_entry_id = 0
    for run in spans(index.blocks, span_bytes):
        position = run[0].position
        size = run[-1].position + run[-1].size - position
        data = memoryview(await objects.read(name, position, size))
        crc = crc32c(data, crc)
        for block in run:
            at = block.position - position
            ledger_id = LedgerId(found.header.ledger_id)
            if block.first_entry_id != next_entry_id:
                raise ColdObjectCorrupt(f"{name}: entry {next_entry_id} is missing")
            for entry in decode_block(data[at : at + block.size], block, ledger_id, name):
                next_entry_id = entry.entry_id + 1
                yield entry
    if crc != index.crc32c:
        raise ColdObjectCorrupt(f"{name}: the CRC32C of the whole does not match")
