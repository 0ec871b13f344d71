"""Entries in, the bytes of an object out: blocks, checksums, index. Pure."""

from collections.abc import Sequence

from tailrace.core.log.cold.format import (
    Block,
    Header,
    Index,
    encode_entry,
    encode_header,
    encode_index,
    encode_trailer,
)
from tailrace.protocol.bookkeeper.entry import Entry
from tailrace.protocol.crc32c import crc32c
from tailrace.protocol.ids import Buffer


class ObjectWriter:
    """Builds one object; what it returns is written in that order. At most one block is held."""

    def __init__(self, header: Header, block_bytes: int) -> None:
        self.entries = 0
        self.position = 0
        """Bytes returned so far; after `finish` the size of the object."""
        self.crc32c = 0
        """Of header and blocks so far."""
        self.index_at = 0
        self._header = header
        self._block_bytes = block_bytes
        self._blocks: list[Block] = []
        self._parts: list[Buffer] = []
        self._size = 0

    def begin(self) -> list[Buffer]:
        """Return the header."""
        return self._give([encode_header(self._header)])

    def add(self, entry: Entry) -> list[Buffer]:
        """Take the next entry; return the block that it completes, or nothing."""
        assert entry.entry_id == self.entries, "entries come in order, without a gap"
        self.entries += 1
        parts = encode_entry(entry)
        self._parts += parts
        self._size += sum(map(len, parts))
        return self._end_block() if self._size >= self._block_bytes else []

    def finish(self) -> list[Buffer]:
        """Return the last block, the index and the trailer."""
        last = self._end_block() if self._parts else []
        self.index_at = self.position
        index = encode_index(Index(tuple(self._blocks), self.entries, self.crc32c))
        tail = [index, encode_trailer(self.index_at, len(index))]
        self.position += sum(map(len, tail))
        return [*last, *tail]

    def _end_block(self) -> list[Buffer]:
        parts, self._parts = self._parts, []
        crc = 0
        for part in parts:
            crc = crc32c(part, crc)
        first = self.entries - len(parts) // 2  # two parts an entry
        self._blocks.append(Block(first, self.position, self._size, crc))
        self._size = 0
        return self._give(parts)

    def _give(self, parts: Sequence[Buffer]) -> list[Buffer]:
        for part in parts:
            self.crc32c = crc32c(part, self.crc32c)
            self.position += len(part)
        return list(parts)
